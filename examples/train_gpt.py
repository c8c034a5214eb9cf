"""Train a byte-level GPT, data-parallel.

    shardwise run -n 2 examples/train_gpt.py            # or mpirun -n 2 python ..., or python ... alone

Reads the source of Python's own standard library, or any file or folder (--data).
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sysconfig
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tqdm import tqdm

import shardwise as sw
from shardwise import nn, optim
from shardwise.launch import on_terminal
from shardwise.nn import functional as F
from shardwise.parallel import DistributedDataParallel, local_rows


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: sw.Tensor) -> sw.Tensor:
        b, t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*qkv.unbind(0), is_causal=True)
        x = x + self.dropout(self.proj(y.transpose(1, 2).reshape(b, t, d)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))


class GPT(nn.Module):
    def __init__(self, layers: int, dim: int, heads: int, context: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.context = context
        self.tokens, self.positions = nn.Embedding(256, dim), nn.Embedding(context, dim)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(dim, heads, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 256, bias=False)
        for name, p in self.named_parameters():
            if p.ndim == 2:  # narrower where many layers add up (Radford et al. 2019)
                nn.init.normal_(
                    p,
                    std=0.02
                    / (math.sqrt(2 * layers) if name.endswith(("proj.weight", "down.weight")) else 1),
                )

    def forward(self, index: sw.Tensor, target: sw.Tensor | None = None) -> sw.Tensor:
        x = self.dropout(self.tokens(index) + self.positions.weight[: index.shape[1]])
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return logits if target is None else F.cross_entropy(logits.view(-1, 256), target.view(-1))


def read(path: Path, cap: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Return training bytes, validation bytes (whole files, chosen by a hash of their path), SHA-256."""
    files = (
        [path]
        if path.is_file()
        else sorted(p for p in path.rglob("*.py" if path == STDLIB else "*") if p.is_file())
    )
    train, valid, digest, total = [], [], hashlib.sha256(), 0
    for file in files:
        name = file.relative_to(path).as_posix() if file != path else file.name
        if path == STDLIB and name.split("/")[0] in ("test", "site-packages"):
            continue
        text = file.read_bytes()[: cap - total]
        digest.update(text)
        total += len(text)
        part = hashlib.sha256(name.encode()).digest()[0] / 256
        (valid if part < 0.1 else train).append(text)
    if not valid or sum(map(len, valid)) < 500_000:  # too few files to choose from: take the end
        text = b"".join(train + valid)
        cut = max(len(text) // 10, min(500_000, len(text) // 2))
        train, valid = [text[:-cut]], [text[-cut:]]
    return *(np.frombuffer(b"".join(x), np.uint8) for x in (train, valid)), digest.hexdigest()


STDLIB = Path(sysconfig.get_path("stdlib"))


def batch(data: np.ndarray, starts: np.ndarray, context: int) -> tuple[sw.Tensor, sw.Tensor]:
    """Return inputs and targets, each of shape (len(starts), context)."""
    rows = data[starts[:, None] + np.arange(context + 1)].astype(np.int64)
    return sw.tensor(rows[:, :-1]), sw.tensor(rows[:, 1:])


@sw.no_grad()
def evaluate(model: nn.Module, data: np.ndarray, context: int, windows: int) -> float:
    """Return the mean loss over windows spread over `data`, in nats per byte; the ranks share the work."""
    starts = np.linspace(0, len(data) - context - 1, windows).astype(int)[sw.rank() :: sw.world_size()]
    sums = np.zeros(2)
    for chunk in np.array_split(starts, max(1, len(starts) // 32)):
        sums += float(model(*batch(data, chunk, context))) * len(chunk), len(chunk)
    total, count = sw.all_reduce(sums)
    return float(total / count)


@sw.no_grad()
def sample(model: GPT, prompt: bytes, n: int, temperature: float = 0.8) -> str:
    """Return `prompt` continued by `n` bytes."""
    text = list(prompt)
    for u in sw.rand(n).tolist():
        p = (model(sw.tensor([text[-model.context :]]))[0, -1] / temperature).softmax().numpy()
        text.append(int(np.searchsorted(np.cumsum(p), u * p.sum()).clip(0, 255)))
    return bytes(text).decode(errors="replace")


def main(argv: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description="Train a byte-level GPT, data-parallel.")
    parser.add_argument(
        "--data", type=Path, default=STDLIB, help="a file or folder; Python's standard library"
    )
    parser.add_argument("--save", type=Path, default=Path("gpt.safetensors"))
    for name, value in {"layers": 4, "dim": 128, "heads": 4, "context": 128, "batch": 32, "steps": 1000, "warmup": 50,
                        "seed": 0, "valid-windows": 1024, "sample": 300}.items():  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--dropout", type=float, default=0.0)
    args = parser.parse_args(argv)
    first = sw.rank() == 0
    say = print if first else (lambda *_, **__: None)

    train, valid, digest = read(args.data, 8 * 2**20)
    say(f"{len(train):,} bytes to train on, {len(valid):,} to validate, sha256 {digest}")
    sw.manual_seed(args.seed)
    model = GPT(args.layers, args.dim, args.heads, args.context, args.dropout)
    ddp = DistributedDataParallel(model)
    say(f"{sum(p.numel() for p in model.parameters()):,} parameters, {sw.world_size()} ranks")
    matrices = [p for p in model.parameters() if p.ndim == 2]
    vectors = [p for p in model.parameters() if p.ndim != 2]
    opt = optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
        lr=args.lr,
        betas=(0.9, 0.95),
    )
    schedule = optim.CosineWarmupLR(opt, args.steps, args.warmup)
    mine = local_rows(args.batch)
    start = time.perf_counter()
    bar = tqdm(total=args.steps, disable=not (first and on_terminal()), unit="step")
    for step in range(1, args.steps + 1):
        starts = sw.randint(0, len(train) - args.context, args.batch).numpy()  # the same on all ranks
        loss = ddp(*batch(train, starts[mine], args.context))
        opt.zero_grad()
        loss.backward()
        nn.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        schedule.step()
        if step % 50 == 0 or step == args.steps:
            mean = float(sw.all_reduce(loss.detach(), "avg"))
            rate = step * args.batch * args.context / (time.perf_counter() - start)
            bar.set_postfix_str(f"loss {mean:.3f}, {rate:,.0f} tokens/s")
            if bar.disable:
                say(f"step {step}/{args.steps} loss {mean:.3f} {rate:,.0f} tokens/s", flush=True)
        bar.update()
    bar.close()
    loss = evaluate(model.eval(), valid, args.context, args.valid_windows)
    if first:
        save_file({name: t.numpy() for name, t in model.state_dict().items()}, args.save)
        say("---", sample(model, b"def ", args.sample), "---", f"weights saved to {args.save}", sep="\n")
        say(f"validation loss {loss:.4f} nats per byte after {time.perf_counter() - start:.0f} s")
    return loss


if __name__ == "__main__":
    main()

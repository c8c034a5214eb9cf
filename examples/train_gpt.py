"""Train a byte-level GPT, data-parallel, on Python's own library: shardwise run -n 2 examples/train_gpt.py"""

from __future__ import annotations

import argparse
import functools
import hashlib
import sysconfig
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tqdm import tqdm

import shardwise as sw
from shardwise import nn, optim
from shardwise.collectives import local_device
from shardwise.launch import on_terminal
from shardwise.nn import functional as F
from shardwise.parallel import DistributedDataParallel, local_rows

STDLIB = Path(sysconfig.get_path("stdlib"))


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: sw.Tensor) -> sw.Tensor:
        b, t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*qkv.unbind(0), is_causal=True)
        x = x + self.dropout(self.proj(y.transpose(1, 2).reshape(b, t, d)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))


class GPT(nn.Module):
    def __init__(self, layers: int, dim: int, heads: int, context: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.context, self.place, self.dropout = context, nn.Embedding(context, dim), nn.Dropout(dropout)
        self.recent = nn.ModuleList(nn.Embedding(256, dim) for _ in range(4))  # of a byte and the 3 before it
        self.blocks = nn.Sequential(*(Block(dim, heads, dropout) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 256, bias=False)
        for p in (p for p in self.parameters() if p.ndim == 2):
            nn.init.normal_(p, std=0.02)

    def forward(self, index: sw.Tensor, target: sw.Tensor | None = None) -> sw.Tensor:
        rows, length = index.shape
        past = sw.cat([sw.zeros(rows, 3, dtype=np.int64), index], dim=1).to(self.norm.weight.device)
        x = self.place.weight[:length] + sum(e(past[:, k : k + length]) for k, e in enumerate(self.recent))
        out = self.head(self.norm(self.blocks(self.dropout(x))))
        return out if target is None else F.cross_entropy(out.view(-1, 256), target.view(-1).to(out.device))


def read(path: Path, cap: int = 8 * 2**20) -> tuple[np.ndarray, np.ndarray, str]:
    """Return bytes to train on, bytes to validate (files chosen by a hash of their path), SHA-256."""
    texts, digest, total, valid = {}, hashlib.sha256(), 0, b""
    left_out = ("test/", "site-packages/", "dist-packages/") if path == STDLIB else ()
    for file in [path] if path.is_file() else sorted(path.rglob("*.py" if path == STDLIB else "*")):
        name = file.relative_to(path).as_posix()
        if not file.is_file() or name.startswith(left_out):
            continue
        texts[name] = file.read_bytes()[: cap - total]
        total += len(texts[name])
        digest.update(texts[name])
    for name in sorted(texts, key=lambda name: hashlib.sha256(name.encode()).digest()):
        if len(valid) < min(500_000, total // 10) and len(texts[name]) < max(total // 50, 1000):
            valid += texts.pop(name)  # no file is so large that it would be most of it
    train = b"".join(texts.values())
    if not (train and valid):  # one file, or few: the end of the text
        train, valid = (train + valid)[: total * 9 // 10], (train + valid)[total * 9 // 10 :]
    return np.frombuffer(train, np.uint8), np.frombuffer(valid, np.uint8), digest.hexdigest()


def batch(data: np.ndarray, starts: np.ndarray, context: int) -> tuple[sw.Tensor, sw.Tensor]:
    """Return inputs and targets, each of shape (len(starts), context)."""
    rows = data[starts[:, None] + np.arange(context + 1)].astype(np.int64)
    return sw.tensor(rows[:, :-1]), sw.tensor(rows[:, 1:])


@sw.no_grad()
def evaluate(model: nn.Module, data: np.ndarray, context: int) -> float:
    """Return the mean loss over all of `data`, in nats per byte; the ranks share the windows."""
    starts = np.arange(0, len(data) - context, context)[sw.rank() :: sw.world_size()]
    parts = np.array_split(starts, len(starts) // 32 + 1) if len(starts) else []
    total = sum(float(model(*batch(data, part, context))) * len(part) for part in parts)
    return float(np.divide(*sw.all_reduce(np.array([total, len(starts)]))))


@sw.no_grad()
def sample(model: GPT, text: list[int], n: int, temperature: float = 0.7) -> str:
    for u in sw.rand(n).tolist():
        p = (model(sw.tensor([text[-model.context :]]))[0, -1] / temperature).softmax().cpu().numpy()
        text.append(int(np.searchsorted(np.cumsum(p), u * p.sum()).clip(0, 255)))
    return bytes(text).decode(errors="replace")


def main(argv: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__)
    numbers = {"layers": 4, "dim": 128, "heads": 4, "context": 128, "batch": 16, "steps": 1500, "warmup": 50,
               "seed": 0, "sample": 400, "lr": 3e-3, "dropout": 0.0, "seconds": 130.0}  # fmt: skip
    for name, value in ({"data": STDLIB, "save": Path("gpt.safetensors"), "device": "cpu"} | numbers).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    args = parser.parse_args(argv)
    say = functools.partial(print, flush=True) if sw.rank() == 0 else (lambda *_, **__: None)
    train, valid, digest = read(args.data)
    if min(len(train), len(valid)) <= args.context:
        parser.error(f"--data {args.data} has too little text for --context {args.context}")
    say(f"{len(train):,} bytes to train on, {len(valid):,} to validate, sha256 {digest}")
    sw.manual_seed(args.seed)
    model = GPT(args.layers, args.dim, args.heads, args.context, args.dropout).to(local_device(args.device))
    ddp = DistributedDataParallel(model)
    say(f"{sum(p.data.size for p in model.parameters()):,} parameters on {sw.world_size()} ranks")
    opt = optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = optim.CosineWarmupLR(opt, args.steps, min(args.warmup, args.steps))
    mine, steps, step, start = local_rows(args.batch), args.steps, 0, time.perf_counter()
    bar = tqdm(total=args.steps, disable=not (sw.rank() == 0 and on_terminal()), unit="step")
    while step < steps:
        starts = sw.randint(0, len(train) - args.context, args.batch).numpy()  # the same on all ranks
        loss = ddp(*batch(train, starts[mine], args.context))
        opt.zero_grad()
        loss.backward()
        nn.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        schedule.step()
        step += 1
        if step % 50 == 0 or step == steps:
            mean, spent = float(sw.all_reduce(loss.detach(), "avg")), time.perf_counter() - start
            note = f"loss {mean:.3f}, {step * args.batch * args.context / spent:,.0f} tokens/s"
            say(f"step {step} of {steps} that fit: {note}") if bar.disable else bar.set_postfix_str(note)
            fit = int(sw.broadcast(np.array(args.seconds / spent * step)))  # slow machines take fewer steps
            steps = schedule.total_steps = bar.total = min(args.steps, fit) if step < steps else step
        bar.update()
    bar.close()
    loss = evaluate(model.eval(), valid, args.context)
    if sw.rank() == 0:
        save_file({name: t.cpu().numpy() for name, t in model.state_dict().items()}, args.save)
        text = sample(model, list(b"def "), args.sample)
        say("---", text, "---", f"weights saved to {args.save}", sep="\n")
    say(f"validation loss {loss:.4f} nats per byte after {time.perf_counter() - start:.0f} s")
    return loss


if __name__ == "__main__":
    main()

"""Train a byte-level GPT on Python's own library: shardwise run -n 4 examples/train_gpt.py --tp 2 --sp"""

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
from gpt import GPT, split
from shardwise import nn, optim
from shardwise.collectives import local_device
from shardwise.launch import on_terminal
from shardwise.parallel import DistributedDataParallel, local_rows

STDLIB = Path(sysconfig.get_path("stdlib"))


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
def evaluate(model: nn.Module, data: np.ndarray, context: int, group: sw.ProcessGroup) -> float:
    """Return the mean loss over all of `data`, in nats per byte; the ranks of the group share the windows."""
    starts = np.arange(0, len(data) - context, context)[group.rank :: group.size]
    parts = np.array_split(starts, len(starts) // 32 + 1) if len(starts) else []
    total = sum(float(model(*batch(data, part, context))) * len(part) for part in parts)
    return float(np.divide(*sw.all_reduce(np.array([total, len(starts)]), "sum", group)))


@sw.no_grad()
def sample(model: GPT, text: list[int], n: int, temperature: float = 0.7) -> str:
    for u in sw.rand(n).tolist():
        p = (model(sw.tensor([text[-model.context :]]), None)[0, -1] / temperature).softmax().cpu().numpy()
        text.append(int(np.searchsorted(np.cumsum(p), u * p.sum()).clip(0, 255)))
    return bytes(text).decode(errors="replace")


def main(argv: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__)
    numbers = {"layers": 4, "dim": 128, "heads": 4, "context": 128, "batch": 16, "steps": 1500, "warmup": 50,
               "seed": 0, "sample": 400, "lr": 3e-3, "dropout": 0.0, "seconds": 130.0,
               "dp": -1, "tp": 1}  # fmt: skip
    for name, value in ({"data": STDLIB, "save": Path("gpt.safetensors"), "device": "cpu"} | numbers).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--sp", action="store_true", help="split the sequence, too, over the --tp ranks")
    args = parser.parse_args(argv)
    say = functools.partial(print, flush=True) if sw.rank() == 0 else (lambda *_, **__: None)
    train, valid, digest = read(args.data)
    if min(len(train), len(valid)) <= args.context:
        parser.error(f"--data {args.data} has too little text for --context {args.context}")
    if args.heads % args.tp:
        parser.error(f"--heads {args.heads} cannot be split over --tp {args.tp} ranks")
    mesh = sw.init_device_mesh(args.device, (args.dp, args.tp), mesh_dim_names=("dp", "tp"))
    group = mesh["dp"].get_group()
    say(f"{len(train):,} bytes to train on, {len(valid):,} to validate, sha256 {digest}")
    sw.manual_seed(args.seed)
    model = GPT(args.layers, args.dim, args.heads, args.context, args.dropout).to(local_device(args.device))
    if args.tp > 1:
        split(model, mesh["tp"], args.sp)
    ddp = DistributedDataParallel(model, device_mesh=mesh["dp"])
    say(f"{sum(p.data.size for p in model.parameters()):,} parameters on {sw.world_size()} ranks")
    opt = optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = optim.CosineWarmupLR(opt, args.steps, min(args.warmup, args.steps))
    mine, steps, step, start = local_rows(args.batch, group), args.steps, 0, time.perf_counter()
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
            mean = float(sw.all_reduce(np.array(loss.item()), "avg", group))
            spent = time.perf_counter() - start
            note = f"loss {mean:.3f}, {step * args.batch * args.context / spent:,.0f} tokens/s"
            say(f"step {step} of {steps} that fit: {note}") if bar.disable else bar.set_postfix_str(note)
            fit = int(sw.broadcast(np.array(args.seconds / spent * step)))  # slow machines take fewer steps
            steps = schedule.total_steps = bar.total = min(args.steps, fit) if step < steps else step
        bar.update()
    bar.close()
    loss = evaluate(model.eval(), valid, args.context, group)
    weights = {name: t.cpu().numpy() for name, t in model.state_dict().items()}  # parts are put together
    text = sample(model, list(b"def "), args.sample)
    if sw.rank() == 0:
        save_file(weights, args.save)
        say("---", text, "---", f"weights saved to {args.save}", sep="\n")
    say(f"validation loss {loss:.4f} nats per byte after {time.perf_counter() - start:.0f} s")
    return loss


if __name__ == "__main__":
    main()

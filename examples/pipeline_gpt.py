"""Train a byte-level GPT in a pipeline: shardwise run -n 4 examples/pipeline_gpt.py --schedule ZBH1"""

from __future__ import annotations

import argparse
import functools
import time
from pathlib import Path

import numpy as np

import shardwise as sw
from gpt import GPT
from shardwise import optim
from shardwise.nn import functional as F
from shardwise.pipelining import get_schedule_class, pipeline, simulate
from train_gpt import STDLIB, batch, read


def loss_fn(out: sw.Tensor, target: sw.Tensor) -> sw.Tensor:
    return F.cross_entropy(out.reshape(-1, 256), target.reshape(-1))


def main(argv: list[str] | None = None) -> list[float]:
    parser = argparse.ArgumentParser(description=__doc__)
    numbers = {"layers": 8, "dim": 128, "heads": 4, "context": 128, "batch": 16, "steps": 100, "seed": 0,
               "lr": 1e-3, "dropout": 0.0, "microbatches": 8, "stages-per-rank": 0}  # fmt: skip
    for name, value in ({"data": STDLIB, "schedule": "1F1B"} | numbers).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--balance", choices=("flops", "params", "time"), default="flops")
    parser.add_argument("--tie", action="store_true", help="let the head be the embedding of the last byte")
    parser.add_argument("--check", action="store_true", help="compare the stages with the whole model first")
    parser.add_argument("--checkpoint", action="store_true", help="keep inputs of stages only, and recompute")
    args = parser.parse_args(argv)
    say = functools.partial(print, flush=True) if sw.rank() == 0 else (lambda *_, **__: None)
    kind = get_schedule_class(args.schedule)
    per_rank = args.stages_per_rank or kind.default_stages_per_rank
    plan = kind(sw.world_size(), args.microbatches, stages_per_rank=per_rank)
    train, _, _ = read(Path(args.data))
    if len(train) <= args.context:
        parser.error(f"--data {args.data} has too little text for --context {args.context}")

    sw.manual_seed(args.seed)
    model = GPT(args.layers, args.dim, args.heads, args.context, args.dropout)
    if args.tie:
        model.head.weight = model.recent[0].weight
    rows = -(-args.batch // args.microbatches)
    example, _ = batch(train, np.zeros(rows, np.int64), args.context)
    pipe = pipeline(
        model, (example,), num_stages=plan.n_stages, balance=args.balance, stages_per_rank=per_rank
    )
    say(pipe)
    if args.check:
        say(pipe.check(example, rtol=1e-4))
    costs = pipe.costs(flops_per_second=pipe.info().stages[-1].flops)
    unit, counted = plan.simulate(), simulate(plan.program, costs)
    say(f"{kind.__name__}: {plan.n_stages} stages on {plan.ranks} ranks, a microbatch is {rows} rows")
    say(plan.draw())
    say(f"bubble: {unit.bubble:.1%} of alike stages, {counted.bubble:.1%} of these by their operations")

    here = plan.stages_of(sw.rank())
    stages = [pipe.build_stage(index, checkpoint=args.checkpoint) for index in here]
    schedule = kind(stages, args.microbatches, loss_fn, tied=pipe.tied, broadcast_losses=True)
    held = {id(p): p for stage in stages for p in stage.submodule.parameters()}  # a tied one once
    opt = optim.AdamW(list(held.values()), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1)
    sizes = [len(part) for part in np.array_split(np.arange(args.batch), args.microbatches)]
    found: list[float] = []
    begin = time.perf_counter()
    for step in range(1, args.steps + 1):
        starts = sw.randint(0, len(train) - args.context, args.batch).numpy()  # the same on all ranks
        x, target = batch(train, starts, args.context)
        losses: list[sw.Tensor] = []
        opt.zero_grad()
        schedule.step(
            *((x,) if 0 in here else ()), target=target if plan.n_stages - 1 in here else None, losses=losses
        )
        opt.step()
        found.append(float(np.average([float(loss) for loss in losses], weights=sizes)))
        if step % 20 == 0 or step == args.steps:
            speed = step * args.batch * args.context / (time.perf_counter() - begin)
            say(f"step {step}: loss {found[-1]:.4f}, {speed:,.0f} tokens/s")
    assert schedule.pipeline is not None
    say(f"bubble as it was in the last step: {schedule.pipeline.timeline().bubble:.1%}")
    say(f"loss {found[-1]:.6f} after {args.steps} steps of {kind.__name__} on {plan.ranks} ranks")
    return found


if __name__ == "__main__":
    main()

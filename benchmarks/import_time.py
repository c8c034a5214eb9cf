"""How long imports take in a fresh process, beside numpy, on which ours stands, and torch.

``import shardwise`` loads nothing until a name is used. So the imports of a whole training script are
measured too. Processes take turns, and those of the first round, which may have to compile and to read
files from the disk, do not count.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from contest.options import parser, peer_present, result, write
from contest.rounds import Rounds, ratio

ALLOWED = 100.0  # ms that `import shardwise` may take above `import numpy`

NUMPY = "import numpy"
OURS = "import shardwise"
SCRIPT = "imports of a training script"
STATEMENTS = {
    (NUMPY, "ours"): "import numpy",
    (OURS, "ours"): "import shardwise",
    (OURS, "torch"): "import torch",
    (SCRIPT, "ours"): (
        "import shardwise as sw; from shardwise import nn, optim; "
        "from shardwise.parallel import DistributedDataParallel; sw.tensor; sw.rank; sw.manual_seed"
    ),
    (SCRIPT, "torch"): (
        "import torch; from torch import nn, optim; from torch.nn.parallel import DistributedDataParallel; "
        "import torch.distributed"
    ),
}


def import_once(statements: str) -> float:
    """Execute import statements in a fresh process, and return the milliseconds that they took there."""
    # Compiled modules may be kept, as they are for users.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    code = f"import time; start = time.perf_counter(); {statements}; print(time.perf_counter() - start)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, text=True, check=True, timeout=300
    )
    return float(done.stdout) * 1e3


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the results."""
    options = parser(__doc__.splitlines()[0], rounds=15, steps=1).parse_args(argv)
    sides = ("ours", "torch") if peer_present(options) else ("ours",)
    measured = {name: code for name, code in STATEMENTS.items() if name[1] in sides}
    took: dict[tuple[str, str], list[list[float]]] = {name: [] for name in measured}
    for round_ in range(options.rounds + 1):
        for name, statements in measured.items():
            milliseconds = [import_once(statements) for _ in range(options.steps)]
            if round_:
                took[name].append(milliseconds)
    rounds = {name: Rounds(some) for name, some in took.items()}
    for name, one in rounds.items():
        print(f"{measured[name]}: {one.show('ms')}")
    numpy = rounds[NUMPY, "ours"].median
    results = [result(NUMPY, "ms", numpy)]
    for what in (OURS, SCRIPT):
        ours, peer = rounds[what, "ours"], rounds.get((what, "torch"))
        print(f"{what}: {ours.median - numpy:+.1f} ms over {NUMPY}; {ALLOWED:.0f} are allowed")
        if peer is not None:
            print(f"{what}: ours over torch {ratio(ours, peer)}")
        results.append(result(what, "ms", ours.median, None if peer is None else peer.median))
    write(options, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())

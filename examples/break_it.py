"""Break a job on purpose, and read its verdict: who, in which operation, at which line.

    shardwise run -n 3 examples/break_it.py --how raise       one rank raises
    shardwise run -n 3 examples/break_it.py --how kill        one rank is killed, as when memory runs out
    shardwise run -n 3 examples/break_it.py --how skip        one rank never comes to the collective
    shardwise run -n 3 examples/break_it.py --how mismatch    one rank calls another collective
    shardwise run -n 3 examples/break_it.py --how partition   one rank stops answering, as behind a cut cable

The ranks take steps of a gradient descent together. At step 20 one of them goes wrong, and the job ends
within seconds: not with a traceback per rank, and never in silence. An operation waits ten minutes by
default; here it waits two seconds.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Callable

import numpy as np

import shardwise as sw
from shardwise import collectives

BREAK_AT, STEPS = 20, 1_000_000
TIMEOUT = 2.0  # seconds that an operation is waited for


def raise_error() -> None:
    """A bug, or data that one rank alone has."""
    raise ValueError("this rank's data is bad")


def kill_myself() -> None:
    """What the system does to a process that takes too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def skip_the_collective() -> None:
    """Wait for something that never comes, outside of all collectives: a file, a lock, a server."""
    while True:
        time.sleep(0.1)


def call_another() -> None:
    """Take another branch than the other ranks, with another collective in it."""
    collectives.all_gather(np.ones(4, np.float32))


def stop_answering() -> None:
    """Stand still, without an end: a host that is cut off or hangs looks alike to the others.

    To cut a real link between hosts made of network namespaces, see tests/hosts.
    """
    os.kill(os.getpid(), signal.SIGSTOP)


HOW: dict[str, Callable[[], None]] = {
    "raise": raise_error,
    "kill": kill_myself,
    "skip": skip_the_collective,
    "mismatch": call_another,
    "partition": stop_answering,
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--how", choices=HOW, required=True)
    parser.add_argument("--rank", type=int, default=1, help="the rank that goes wrong (default 1)")
    args = parser.parse_args(argv)
    if args.how == "mismatch":
        # Every operation is compared before it runs; without this they hang, or mix up each other's bytes.
        os.environ.setdefault("SHARDWISE_DEBUG", "1")
    weights = sw.all_reduce(np.zeros(1000, np.float32))  # the first one connects, and may load compiled code
    collectives.get_group().timeout = TIMEOUT
    for step in range(1, STEPS):
        if step == BREAK_AT and sw.rank() == args.rank:
            HOW[args.how]()
        gradient = sw.all_reduce(weights - 1.0, "avg")
        weights -= 0.1 * gradient
        time.sleep(0.01)  # what a forward and a backward take


if __name__ == "__main__":
    main()

"""A rank that leaves by `os._exit(0)`, which tells nobody: neither Python nor MPI."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.command import Ended
from shardwise.launch.mpi import find_mpi

SCRIPT = """
    import os, time
    from mpi4py import MPI
    MPI.COMM_WORLD.Barrier()
    if MPI.COMM_WORLD.rank == 1:
        os._exit(0)
    time.sleep(30)
"""


def test_it_is_named(script: Callable[[str], Path], run: Callable[..., Ended]) -> None:
    done = run("-n", 3, "--timeout", 10, script(SCRIPT))
    assert done.code != 0
    if find_mpi().flavour == "mpich":  # which kills the others, who are not to blame
        assert done.said.splitlines()[-1] == (
            "shardwise run: rank 1 had ended before, with exit code 0; by os._exit()?"
        )
    else:  # which names the rank itself
        assert "rank 1" in done.err


def test_it_is_named_where_the_others_wait_for_it(
    script: Callable[[str], Path], run: Callable[..., Ended]
) -> None:
    path = script("""
        import os
        import shardwise as sw
        sw.barrier()
        if sw.rank() == 1:
            os._exit(0)
        while True:
            sw.barrier()
    """)
    done = run("-n", 3, path)
    assert done.code != 0
    assert done.said.splitlines()[-1].endswith("rank 1 had ended before, with exit code 0; by os._exit()?")

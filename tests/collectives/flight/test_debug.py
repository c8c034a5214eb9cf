"""The debug mode: ranks that do not call the same are told so, all of them, with both sides."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from harness.command import clean_environment
from shardwise import collectives as c
from shardwise.backend.errors import CollectiveMismatchError, LaunchError
from shardwise.collectives.flight.checked import CheckedGroup
from shardwise.collectives.flight.fingerprint import NBYTES, Fingerprint, disagreement
from shardwise.launch.command import mpi_command
from shardwise.launch.cores import find_cores
from shardwise.launch.mpi import find_mpi

ONES = np.ones(3, np.float32)


def call(
    op: str = "all_reduce", how: str | int | None = "sum", shape: tuple[int, ...] = (3,), **more: object
) -> Fingerprint:
    splits = more.get("splits", ())
    assert isinstance(splits, tuple)
    return Fingerprint(
        op, how, str(more.get("dtype", "float32")), shape, splits, str(more.get("at", "a.py:1"))
    )


def test_equal_calls_at_different_lines_agree() -> None:
    assert disagreement([call(), call(at="b.py:2")], (0, 1)) is None


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (call("barrier", None, (), dtype="uint8"), "barrier(uint8[]) at a.py:1"),
        (call(how="max"), "all_reduce(float32[3], 'max') at a.py:1"),
        (call(shape=(4,)), "all_reduce(float32[4], 'sum') at a.py:1"),
        (call(dtype="float64"), "all_reduce(float64[3], 'sum') at a.py:1"),
    ],
)
def test_both_sides_are_named(other: Fingerprint, said: str) -> None:
    assert disagreement([call(), other, call(), call()], (4, 5, 6, 7)) == (
        f"ranks 4,6-7 call all_reduce(float32[3], 'sum') at a.py:1; rank 5 calls {said}"
    )


def test_roots_differ() -> None:
    told = disagreement([call("broadcast", 0), call("broadcast", 1)], (0, 1))
    assert told == (
        "rank 0 calls broadcast(float32[3], 0) at a.py:1; rank 1 calls broadcast(float32[3], 1) at a.py:1"
    )


@pytest.mark.parametrize("op", ["scatter", "gather", "all_to_all_single", "all_gather_object"])
def test_where_shapes_may_differ(op: str) -> None:
    assert disagreement([call(op, None, (3,)), call(op, None, (4,))], (0, 1)) is None


def test_sizes() -> None:
    equal = [
        call("all_gather", None, (1,), splits=((1, 2),)),
        call("all_gather", None, (2,), splits=((1, 2),)),
    ]
    assert disagreement(equal, (0, 1)) is None
    told = disagreement([equal[0], call("all_gather", None, (2,), splits=((2, 2),))], (0, 1))
    assert told == (
        "rank 0 calls all_gather(float32[1], sizes [1, 2]) at a.py:1; "
        "rank 1 calls all_gather(float32[2], sizes [2, 2]) at a.py:1"
    )
    swap = [
        call("all_to_all_single", None, (3,), splits=((1, 2), (1, 4))),
        call("all_to_all_single", None, (8,), splits=((3, 5), (2, 5))),
    ]
    assert disagreement(swap, (0, 1)) == (
        "rank 1 sends 3 to rank 0, in all_to_all_single(float32[8], sizes [3, 5], sizes [2, 5]) at a.py:1; "
        "that rank receives 4 from it, in all_to_all_single(float32[3], sizes [1, 2], sizes [1, 4]) at a.py:1"
    )


@pytest.mark.parametrize("source", ["a.py:1", "/very/long/" * 500 + "a.py:1", "ä" * 2000])
def test_a_fingerprint_has_one_size(source: str) -> None:
    row = call(at=source).encode()
    assert (row.shape, row.dtype) == ((NBYTES,), np.uint8)
    back = Fingerprint.decode(row)
    assert back.agreed() == call().agreed()
    assert source.endswith(back.source)
    assert back.source
    many = call("all_gather", None, splits=(tuple(range(5000)),)).encode()
    assert Fingerprint.decode(many).op == "all_gather"


def differ() -> None:
    if c.rank() == 1:
        c.all_reduce(ONES, "max")
    else:
        c.all_reduce(ONES)


def mismatch() -> str:
    with pytest.raises(CollectiveMismatchError) as caught:
        differ()
    return str(caught.value)


def check_message(message: str, number: int) -> None:
    rest = "0" if c.world_size() == 2 else "0,2" if c.world_size() == 3 else "0,2-3"
    verb = f"rank {rest} calls" if c.world_size() == 2 else f"ranks {rest} call"
    assert re.fullmatch(
        rf"operation #{number} of world, on rank {c.rank()}: ranks disagree on what they run together: "
        rf"{verb} "
        r"all_reduce\(float32\[3\], 'sum'\) at .*test_debug.py:\d+; rank 1 calls "
        r"all_reduce\(float32\[3\], 'max'\) at .*test_debug.py:\d+. Every rank of the group must call the "
        r"same, in the same order.",
        message,
    )


def everything() -> None:
    """One call of each kind works, in the order of the lane."""
    n, rank = c.world_size(), c.rank()
    assert (c.all_reduce(ONES) == n).all()
    works = [c.all_reduce(ONES, async_op=True), c.all_reduce(ONES.astype(np.float16), async_op=True)]
    assert c.all_gather(np.array([rank])).tolist() == list(range(n))
    for work in works:
        assert (work.wait() == n).all()
    assert c.all_gather_object("x" * rank) == ["x" * i for i in range(n)]
    c.scatter(np.ones((n, 2)) if rank == 0 else None, out=np.empty((1, 2)))
    assert c.all_gather(np.full(rank, 1.0), sizes=range(n)).shape == (sum(range(n)),)
    c.barrier()


def test_threads() -> None:
    def body(rank: int) -> str:
        world = c.init(debug=True)
        assert isinstance(world.everyone, CheckedGroup)
        everything()
        number = world.everyone.issued
        message = mismatch()
        check_message(message, number)
        everything()
        with pytest.raises(
            LaunchError, match=r"init\(debug=False\): rank \d is already in a world with debug=True"
        ):
            c.init(debug=False)
        return message

    messages = c.run_threads(body, 3)
    assert len({message.replace(f"rank {rank}:", "rank") for rank, message in enumerate(messages)}) == 1


def test_off_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def checks(rank: int) -> bool:
        return isinstance(c.get_world().everyone, CheckedGroup)

    monkeypatch.delenv("SHARDWISE_DEBUG", raising=False)
    assert c.run_threads(checks, 2) == [False, False]
    monkeypatch.setenv("SHARDWISE_DEBUG", "1")
    assert c.run_threads(checks, 2) == [True, True]


@pytest.fixture
def other_world() -> Iterator[None]:
    """Another world than that of the other tests, which get a new one."""
    c.shutdown()
    yield
    c.shutdown()


@pytest.mark.mpi(min_size=2)
def test_processes(other_world: None) -> None:
    world = c.init(debug=True)
    everything()
    number = world.everyone.issued
    check_message(mismatch(), number)
    everything()


@pytest.mark.mpi(min_size=2)
def test_messages(other_world: None) -> None:
    c.init(debug=True)
    n, rank = c.world_size(), c.rank()
    for number in range(3):
        work = c.isend(np.full(number + 1, rank, np.float32), (rank + 1) % n, tag=number % 2)
        got = c.recv((number + 1,), np.float32, src=(rank - 1) % n, tag=number % 2)
        assert got.tolist() == [(rank - 1) % n] * (number + 1)
        work.wait()
    work = c.isend(np.ones((2, 3), np.float32), (rank + 1) % n, tag=7)
    with pytest.raises(CollectiveMismatchError) as caught:
        c.recv((6,), np.int32, src=(rank - 1) % n, tag=7)
    work.wait()
    assert re.fullmatch(
        rf"rank {rank} receives int32\[6\] from rank {(rank - 1) % n} with tag 7, at .*test_debug.py:\d+, "
        r"which sent float32\[2, 3\], at .*test_debug.py:\d+; send and receive the same shape and dtype\.",
        str(caught.value),
    )


def test_all_ranks_are_in_debug_mode_or_none(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os\nfrom mpi4py import MPI\n"
        "if MPI.COMM_WORLD.rank == 0: os.environ['SHARDWISE_DEBUG'] = '1'\n"
        "from shardwise import collectives as c\nc.rank(); c.barrier()\n"
    )
    command = mpi_command(find_mpi(), 2, (sys.executable, str(script)), find_cores().count)
    done = subprocess.run(
        command.argv,
        env={**clean_environment(), **command.environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 1
    assert (
        "LaunchError: rank 0 is in debug mode and rank 1 not: set SHARDWISE_DEBUG=1, or init(debug=True), on "
        "all ranks or on none." in done.stderr
    )

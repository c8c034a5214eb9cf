"""The ledger: what is written, where it came from, and how it reads."""

from __future__ import annotations

import inspect
import logging
import math
from types import FrameType

import numpy as np
import pytest

from shardwise import collectives as c
from shardwise.backend.errors import CollectiveError
from shardwise.backend.shape import ShapeArray
from shardwise.collectives.ledger import Ledger, Record


def here() -> str:
    frame = inspect.currentframe()
    caller = frame.f_back if isinstance(frame, FrameType) else None
    assert caller is not None
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"


def test_every_operation_writes_one_record() -> None:
    x = np.ones((4, 2), np.float32)

    def body(rank: int) -> None:
        with c.explain() as moved:
            c.all_reduce(x), (line := here())
            c.all_gather(x)
            c.reduce_scatter(x)
            c.all_to_all(x)
            c.broadcast(x)
            c.reduce(x)
            c.gather(x)
            c.scatter(x)
            c.barrier()
            c.all_gather_object("hi")
            c.send(x, rank)
            c.recv((4, 2), "f", rank)
        assert [(r.op, r.bytes) for r in moved.records if r.op != "all_gather_object"] == [
            ("all_reduce", 32),
            ("all_gather", 32),
            ("reduce_scatter", 16),
            ("all_to_all", 16),
            ("broadcast", 32),
            ("reduce", 32),
            ("gather", 32),
            ("scatter", 16),
            ("barrier", 0),
            ("send", 32),
            ("recv", 0),
        ]
        first = moved.records[0]
        assert first.source == line
        assert (first.group, first.size, first.dtype, first.shape, first.nbytes) == (
            "world",
            2,
            "float32",
            (4, 2),
            32,
        )
        assert [r.seq for r in moved.records if r.group == "world"] == list(range(10))
        assert moved.records[-1].group == f"{rank} -> {rank}"
        assert all(0 <= r.seconds < 5 for r in moved.records)
        assert not any(r.implicit for r in moved.records)
        assert moved.total_bytes() == sum(r.bytes for r in moved.records)
        c.barrier()
        assert len(moved) == 12

    c.run_threads(body, 2)


def test_a_record_is_open_until_its_operation_ends() -> None:
    with c.explain() as moved:
        work = c.all_reduce(np.ones(3), async_op=True)
        assert math.isnan(moved.records[0].end) or work.is_completed()
        work.wait()
    assert moved.records[0].end >= moved.records[0].start


def test_what_nobody_asked_for_is_marked() -> None:
    with c.explain() as moved:
        with c.implicit():
            c.all_reduce(1)
        c.all_reduce(1)
    assert [record.implicit for record in moved] == [True, False]


def test_explanations_nest() -> None:
    with c.explain() as outer:
        c.barrier()
        with c.explain() as inner:
            c.barrier()
        c.barrier()
    assert (len(outer), len(inner)) == (3, 1)


def test_the_table() -> None:
    ledger = Ledger()
    records: list[Record] = []
    ledger.listen(records)
    for seq, (op, implicit) in enumerate([("all_reduce", False), ("all_reduce", False), ("broadcast", True)]):
        record = Record(op, seq, "world", 2, np.dtype("f"), (256,), implicit, place="train.py:9")
        record.start, record.end = 1.0, 1.0015
        ledger.write(record)
    ledger.ignore(records)
    with c.explain() as moved:
        moved.records.extend(records)
    assert moved.table().splitlines() == [
        "times  op          array         bytes  group  ms     asked     line",
        "2      all_reduce  float32[256]  2048   world  3.000  by name   train.py:9",
        "1      broadcast   float32[256]  1024   world  1.500  implicit  train.py:9",
        "3      total                     3072",
    ]
    assert repr(records[0]) == "Record(all_reduce #0 of world, float32[256], 1024 bytes, train.py:9)"


def test_the_ring_is_bounded() -> None:
    ledger = Ledger(capacity=3)
    for seq in range(5):
        ledger.write(Record("barrier", seq, "world", 1, np.dtype("B"), ()))
    assert [record.seq for record in ledger.records] == [2, 3, 4]


def test_a_dry_run_moves_nothing_and_is_recorded() -> None:
    def body(rank: int) -> None:
        x = ShapeArray((4, 10**12), np.float32)
        with c.explain() as moved:
            shapes = [
                c.all_reduce(x).shape,  # type: ignore[call-overload]
                c.all_gather(x, dim=1).shape,  # type: ignore[call-overload]
                c.reduce_scatter(x).shape,  # type: ignore[call-overload]
                c.all_to_all(x, split_dim=0, concat_dim=1).shape,  # type: ignore[call-overload]
                c.broadcast(x).shape,  # type: ignore[call-overload]
                c.scatter(x).shape,  # type: ignore[call-overload]
            ]
        assert shapes == [
            (4, 10**12),
            (4, 2 * 10**12),
            (2, 10**12),
            (2, 2 * 10**12),
            (4, 10**12),
            (2, 10**12),
        ]
        assert moved.records[0].bytes == 16 * 10**12
        if rank:
            return  # nobody waits for anybody
        assert c.all_reduce(x, async_op=True).wait().shape == x.shape  # type: ignore[call-overload]

    c.run_threads(body, 2)


def test_what_nobody_asked_for_can_be_forbidden() -> None:
    x = np.ones((2, 3), np.float32)

    def body(rank: int) -> str:
        with c.no_implicit():
            c.all_reduce(x)  # asked for
            with c.implicit():
                c.barrier()  # moves nothing
                c.all_reduce(x, group=c.get_group([rank]))
                with pytest.raises(CollectiveError) as error:
                    (line := here()), c.all_gather(x)
        with c.implicit():
            c.all_gather(x)
        assert line in str(error.value)
        return str(error.value).replace(line, "LINE")

    assert c.run_threads(body, 2) == [
        f"rank {rank}: no_implicit() forbids all_gather on world, float32[2, 3], 24 bytes, at LINE: nobody "
        "asked for it by name. Call redistribute there, or leave no_implicit()."
        for rank in range(2)
    ]


def test_records_are_logged_as_they_are_written(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "shardwise.collectives.ledger")
    ledger = Ledger(log=3)
    ledger.write(Record("all_reduce", 7, "world", 2, np.dtype("f"), (4,), True, place="train.py:12"))
    quiet = Ledger()
    quiet.write(Record("all_reduce", 8, "world", 2, np.dtype("f"), (4,)))
    assert caplog.messages == ["rank 3: all_reduce #7 of world, float32[4], 16 bytes, implicit, train.py:12"]

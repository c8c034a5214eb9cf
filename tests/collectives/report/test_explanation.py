"""`explain`: sums by op and by line, and traces of one rank and of all."""

from __future__ import annotations

import json
import math
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from house.floors import ROOT
from shardwise import collectives as c
from shardwise import nn
from shardwise.collectives.ledger import Record
from shardwise.collectives.report.clock import clock_offsets
from shardwise.collectives.report.trace import rank_trace, write_trace
from shardwise.tensor.timeline import Span

X = np.ones((4, 2), np.float32)


def slices(path: Path, pid: int = 0) -> dict[str, list[dict[str, Any]]]:
    """The slices of one rank, by the names of their tracks, in the order of the file."""
    events = json.loads(path.read_text())["traceEvents"]
    mine = [event for event in events if event["pid"] == pid]
    names = {event["tid"]: event["args"]["name"] for event in mine if event["name"] == "thread_name"}
    tracks: dict[str, list[dict[str, Any]]] = {name: [] for name in names.values()}
    for event in mine:
        if event["ph"] == "X":
            tracks[names[event["tid"]]].append(event)
    return tracks


def assert_nested(track: list[dict[str, Any]]) -> None:
    """Any two slices of a track are apart, or one lies within the other."""
    for one in track:
        for other in track:
            (a, b), (s, e) = ((each["ts"], each["ts"] + each["dur"]) for each in (one, other))
            gap = 0.002  # the file has nanoseconds
            assert (
                b <= s + gap
                or e <= a + gap
                or (s <= a + gap and b <= e + gap)
                or (a <= s + gap and e <= b + gap)
            )


def test_sums_by_op_and_by_line() -> None:
    def body(rank: int) -> None:
        with sw.explain() as moved:
            for _ in range(3):
                c.all_reduce(X)
            c.all_gather(X)
            c.all_reduce(X[:2])
        assert {op: (each.times, each.bytes) for op, each in moved.by_op().items()} == {
            "all_reduce": (4, 112),
            "all_gather": (1, 32),
        }
        lines = moved.by_line()
        assert [(each.times, each.bytes) for each in lines.values()] == [(3, 96), (1, 32), (1, 16)]
        assert all(line.startswith(f"{__file__}:") for line in lines)
        total = sum(each.seconds for each in moved.by_op().values())
        assert math.isclose(total, sum(record.seconds for record in moved))

    c.run_threads(body, 2)


def test_a_trace_has_modules_ops_and_communication(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.GELU(), nn.Linear(3, 1)))
    x = sw.tensor(X)
    with sw.explain() as moved:
        loss = model(x).sum()
        loss.backward()
        with c.implicit():
            c.all_reduce(X)
        c.send(X, 0)
        c.recv((4, 2), "f", 0)
    moved.trace(tmp_path / "step.json")
    tracks = slices(tmp_path / "step.json")
    assert list(tracks) == ["compute", "world", "messages"]
    compute = tracks["compute"]
    assert [(event["name"], event["cat"]) for event in compute if event["cat"] != "module"] == [
        ("Linear", "forward"),
        ("Gelu", "forward"),
        ("Linear", "forward"),
        ("Sum", "forward"),
        ("Sum backward", "backward"),
        ("Linear backward", "backward"),
        ("Gelu backward", "backward"),
        ("Linear backward", "backward"),
    ]
    modules = [(event["name"], event["args"]["way"]) for event in compute if event["cat"] == "module"]
    assert modules == [
        ("0", "forward"),
        ("1", "forward"),
        ("1.0", "forward"),
        ("1.1", "forward"),
        ("1", "backward"),
        ("1.1", "backward"),
        ("1.0", "backward"),
        ("0", "backward"),
    ]
    assert_nested(compute)
    (event,) = tracks["world"]
    assert (event["name"], event["cat"], event["args"]) == (
        "all_reduce",
        "communication",
        {
            "array": "float32[4, 2]",
            "bytes": 0,
            "number": moved.records[0].seq,
            "group": "world",
            "line": moved.records[0].source,
            "asked": "implicit",
            "how": "sum",
        },
    )
    assert [event["name"] for event in tracks["messages"]] == ["send", "recv"]
    starts = [event["ts"] for track in tracks.values() for event in track]
    assert min(starts) == 0.0
    assert [each.name for each in tmp_path.iterdir()] == ["step.json"]


def test_compute_is_left_out_where_it_is_not_wanted() -> None:
    with sw.explain(compute=False) as moved:
        sw.ones(3).exp()
    assert moved.spans == []


def test_operations_that_overlap_get_tracks_of_their_own() -> None:
    records: list[Record] = []
    for start, end in [(1.0, 3.0), (2.0, 4.0), (3.0, float("nan")), (4.5, 5.0)]:
        with sw.explain() as moved:
            sw.barrier()
        moved.records[0].start, moved.records[0].end = start, end
        records += moved.records
    trace = rank_trace(0, "here", records, [], now=10.0)
    drawn = [
        (track.name, [(each.start, each.end, "pending" in each.args) for each in track.slices])
        for track in trace.tracks
    ]
    assert drawn == [
        ("world", [(1.0, 3.0, False), (3.0, 10.0, True)]),
        ("world (2)", [(2.0, 4.0, False), (4.5, 5.0, False)]),
    ]


def test_clocks_are_set_alike(tmp_path: Path) -> None:
    def one(start: float) -> list[Span]:
        return [Span("Exp", "forward", "", start, start + 1e-3, "main")]

    traces = [rank_trace(0, "a", [], one(100.0), 0.0), rank_trace(1, "b", [], one(7.001), 0.0)]
    write_trace(tmp_path / "both.json", traces, [0.0, -93.0])  # rank 1's clock is 93 s behind
    assert [slices(tmp_path / "both.json", pid)["compute"][0]["ts"] for pid in range(2)] == [0.0, 1000.0]
    events = json.loads((tmp_path / "both.json").read_text())["traceEvents"]
    assert [event["args"]["name"] for event in events if event["name"] == "process_name"] == [
        "rank 0 on a",
        "rank 1 on b",
    ]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_one_file_for_all_ranks(size: int, tmp_path: Path) -> None:
    path = tmp_path / "all.json"

    def body(rank: int) -> None:
        with sw.explain() as moved:
            sw.tensor(X).exp()
            sw.all_reduce(X)
        moved.trace(path, all_ranks=True)
        assert len(moved) == 1  # not what the trace itself has moved
        for pid in range(size):
            tracks = slices(path, pid)
            assert {name: len(track) for name, track in tracks.items()} == {"compute": 1, "world": 1}

    c.run_threads(body, size)


def test_a_file_that_cannot_be_written_is_an_error_on_all_ranks(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "all.json"

    def body(rank: int) -> str:
        with sw.explain() as moved:
            sw.barrier()
        with pytest.raises((OSError, sw.ShardwiseError)) as caught:
            moved.trace(path, all_ranks=True)
        return f"{caught.value}"

    first, second = c.run_threads(body, 2)
    assert first.startswith("[Errno 2] No such file or directory: ")
    assert (
        second
        == f"trace on rank 1: rank 0 could not write the trace of all ranks: FileNotFoundError: {first}."
    )


def test_the_page_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "how-to" / "explain.md").read_text(encoding="utf-8")
    script, table = (re.search(rf"^```{kind}\n(.+?)^```$", page, re.M | re.S) for kind in ("python", "text"))
    assert script is not None
    assert table is not None
    monkeypatch.chdir(tmp_path)
    exec(compile(script[1], "train.py", "exec"), {"__name__": "__main__"})
    printed, shown = (
        [re.split(r"\s{2,}", line)[:5] + re.split(r"\s{2,}", line)[6:] for line in text.splitlines()]
        for text in (capsys.readouterr().out, table[1])
    )  # all but the times
    assert printed == shown
    assert {*slices(tmp_path / "step.json", 1)} == {"compute", "world"}


@pytest.mark.mpi(min_size=2)
def test_the_clocks_of_ranks_of_one_host_agree() -> None:

    assert clock_offsets(time.perf_counter) == [0.0] * sw.world_size()
    ahead = clock_offsets(lambda: time.perf_counter() + 5.0 * sw.rank())
    np.testing.assert_allclose(ahead, 5.0 * np.arange(sw.world_size()), atol=0.5)


@pytest.mark.mpi(min_size=2)
def test_one_file_for_all_processes() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(c.broadcast_object(folder)) / "all.json"
        work = c.all_reduce(X, async_op=True)
        with sw.explain() as moved, sw.expect(all_reduce=2, barrier=1, others=0):
            one, two = (c.all_reduce(X, async_op=True) for _ in range(2))
            sw.tensor(X).exp()
            one.wait()
            two.wait()
            sw.barrier()
        work.wait()
        moved.trace(path, all_ranks=True)
        for pid in range(sw.world_size()):
            tracks = slices(path, pid)
            assert [event["name"] for event in tracks.pop("compute")] == ["Exp"]
            names = [event["name"] for track in tracks.values() for event in track]
            assert sorted(names) == ["all_reduce", "all_reduce", "barrier"]
            for track in tracks.values():
                assert_nested(track)
        sw.barrier()  # before rank 0's folder goes


def test_the_table_has_short_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = Path(__file__)
    with sw.explain() as moved:
        c.all_reduce(X)
    (line,) = moved.by_line()
    monkeypatch.chdir(place.parent)
    assert moved.table().splitlines()[1].split()[-1] == f"{place.name}:{line.rsplit(':', 1)[1]}"
    monkeypatch.chdir("/")
    assert moved.table().splitlines()[1].endswith(line.removeprefix("/"))
    monkeypatch.chdir(tmp_path)
    assert moved.table().splitlines()[1].endswith(line)

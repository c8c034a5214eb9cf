"""The doctor on two hosts, and a trace of their ranks in one file."""

from __future__ import annotations

import json
import sys
from typing import Any


def test_the_doctor_looks_at_both_and_between_them(site: Any) -> None:
    where = ("--launch-agent", str(site.hosts.agent), "--hosts", site.list_of(2, 1))
    command = [sys.executable, "-m", "shardwise", "doctor", "-n", "3", "--json", "--quick", *where]
    done = site.start(command).finish()
    assert done.code == 0, done.out + done.err
    report = json.loads(done.out)
    assert report["ranks"] == 3
    found: dict[str, list[dict[str, str]]] = {}
    for each in report["findings"]:
        found.setdefault(each["name"], []).append(each)
    a, b = site.names[:2]
    assert found["world"][0]["what"] == f"3 ranks over mpi on 2 hosts: {a}, {b}"
    assert found["dial-back"][0]["what"] == "each of 2 hosts reaches every other"
    assert found["hosts"][0]["what"] == "the same versions on all 2"
    assert found["clocks"][0]["status"] == "ok"
    assert [each["what"].partition(":")[0] for each in found["interfaces"]] == [a, b]
    assert [each["status"] for each in found["ranks and cores"]] == ["ok", "ok"]
    assert {"ranks 0 and 1 of one host", "ranks 0 and 2 of two hosts"} <= found.keys()
    assert len(found["/dev/shm"]) == 1  # both see the same


def test_one_trace_of_ranks_on_two_hosts(site: Any) -> None:
    site.write("""
        import numpy as np
        import shardwise as sw

        sw.barrier()
        with sw.explain() as e:
            for _ in range(3):
                sw.all_reduce(np.ones(1000, np.float32))
        e.trace("trace.json", all_ranks=True)
    """)
    done = site.run(counts=(1, 1)).finish()
    assert done.code == 0, done.err
    events = json.loads((site.folder / "trace.json").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == [f"rank {rank} on {site.names[rank]}" for rank in range(2)]
    ends = [
        [each["ts"] + each["dur"] for each in events if each["ph"] == "X" and each["pid"] == pid]
        for pid in (0, 1)
    ]
    starts = [[each["ts"] for each in events if each["ph"] == "X" and each["pid"] == pid] for pid in (0, 1)]
    assert [len(each) for each in starts] == [3, 3]
    # No rank can have left a sum before the other one came to it, but for what the clocks may be apart.
    for mine, theirs in ((0, 1), (1, 0)):
        assert all(end > start - 5000 for end, start in zip(ends[mine], starts[theirs], strict=True))

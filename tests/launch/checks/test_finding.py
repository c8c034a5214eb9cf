"""Findings: put together over hosts, and shown."""

from __future__ import annotations

import json

import pytest

from shardwise import __version__
from shardwise.launch.checks.finding import Family, Finding, fail, merge_hosts, ok, warn, worst
from shardwise.launch.checks.local import look
from shardwise.launch.doctor_report import as_json, as_text, exit_code

FAMILIES = [
    Family("Cores", (ok("cores", "8"), warn("BLAS threads", "16 on 8 cores", "export OMP_NUM_THREADS=8"))),
    Family("Nothing", ()),
    Family("GPU", (fail("driver", "too old", "update it"),)),
]


def test_what_is_not_well_needs_a_fix() -> None:
    with pytest.raises(AssertionError):
        Finding("cores", "warn", "few")


def test_the_worst() -> None:
    assert worst([]) == "ok"
    assert worst([ok("a", "b"), warn("a", "b", "c")]) == "warn"
    assert worst([fail("a", "b", "c"), ok("a", "b")]) == "fail"


def test_hosts_that_agree_are_told_once() -> None:
    a = [ok("cores", "8"), warn("/dev/shm", "64 MiB", "more")]
    b = [ok("cores", "4"), warn("/dev/shm", "64 MiB", "more")]
    assert merge_hosts(["x", "y", "z"], [a, b, a]) == (
        ok("cores", "x, z: 8"),
        ok("cores", "y: 4"),
        warn("/dev/shm", "64 MiB", "more"),
    )


def test_of_many_hosts_few_are_named() -> None:
    hosts = [f"n{i}" for i in range(9)]
    merged = merge_hosts(
        hosts, [[ok("address", f"10.0.0.{i}"), warn("disk", str(i // 8), "buy")] for i in range(9)]
    )
    assert [finding.what for finding in merged] == [
        *(f"n{i}: 10.0.0.{i}" for i in range(4)),
        "well on 5 more",
        "n0, n1, n2, n3 and 4 more: 0",
        "n8: 1",
    ]


def test_text() -> None:
    assert as_text(FAMILIES, coloured=False, hint="And then?").splitlines() == [
        "Cores",
        "  ok    cores         8",
        "  warn  BLAS threads  16 on 8 cores",
        "                      -> export OMP_NUM_THREADS=8",
        "GPU",
        "  FAIL  driver        too old",
        "                      -> update it",
        "",
        "3 checks, 1 warning, 1 failure. And then?",
    ]
    coloured = as_text(FAMILIES, coloured=True)
    assert "\x1b[33mwarn\x1b[0m" in coloured
    assert as_text(FAMILIES[:2], coloured=False).endswith("\n2 checks, 1 warning, no failures.")


def test_json() -> None:
    report = json.loads(as_json(FAMILIES, ranks=4, seconds=1.2345))
    assert {name: report[name] for name in ("ok", "version", "ranks", "seconds")} == {
        "ok": False,
        "version": __version__,
        "ranks": 4,
        "seconds": 1.23,
    }
    assert report["findings"][1] == {
        "family": "Cores",
        "name": "BLAS threads",
        "status": "warn",
        "what": "16 on 8 cores",
        "fix": "export OMP_NUM_THREADS=8",
    }
    assert len(report["findings"]) == 3


def test_exit_code() -> None:
    assert (exit_code(FAMILIES), exit_code(FAMILIES[:2]), exit_code([])) == (1, 0, 0)


def test_a_check_that_fails_is_a_finding_and_the_others_go_on() -> None:
    def check_of_a_kind() -> list[Finding]:
        raise OSError("what is this machine")

    told: list[str] = []
    families = look({"First": (check_of_a_kind, lambda: [ok("cores", "8")]), "Second": ()}, told.append)
    assert families == [
        Family(
            "First",
            (
                fail(
                    "of a kind",
                    "the check itself failed: OSError: what is this machine",
                    "report it, with this line",
                ),
                ok("cores", "8"),
            ),
        ),
        Family("Second", ()),
    ]
    assert told == ["First", "Second"]

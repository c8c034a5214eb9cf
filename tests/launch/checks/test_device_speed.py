"""How the doctor measures device arrays, on the double."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from doubles import installed
from shardwise import collectives as c
from shardwise.launch.checks.device_speed import judge_devices_together, measure_devices
from shardwise.launch.checks.finding import Finding, fail, ok, warn


@pytest.fixture(autouse=True)
def _devices() -> Iterator[None]:
    with installed(3):
        yield


def measured(n: int, quick: bool = True, without: int = -1) -> list[list[Finding]]:
    def body(rank: int) -> list[Finding]:
        return measure_devices(c.get_world(), able=rank != without, quick=quick)

    return c.run_threads(body, n)


@pytest.mark.parametrize("way", ["nccl", "staged"])
def test_sums_are_timed(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWISE_DEVICE_TRANSPORT", way)
    for (finding,) in measured(2):
        assert finding.name == "device arrays"
        assert finding.what.startswith(f"all_reduce by {way}: 1 KiB in ")
        assert finding.status == ("ok" if way == "nccl" else "warn")


def test_nothing_is_said_without_devices() -> None:
    def body(rank: int) -> list[Finding]:
        return measure_devices(c.get_world(), able=False, quick=True)

    assert c.run_threads(body, 2) == [[], []]


def test_a_rank_without_a_device() -> None:
    assert (
        measured(3, without=1)
        == [
            [
                fail(
                    "device arrays",
                    "rank 1 of 3 without a GPU, others with one",
                    "start ranks only where GPUs are, or leave the GPUs out: --device cpu",
                )
            ]
        ]
        * 3
    )


def test_what_is_said() -> None:
    assert judge_devices_together("nccl", [], 2, [2e-5, 1e-3]) == ok(
        "device arrays", "all_reduce by nccl: 1 KiB in 20.0 us, 64 MiB in 1.0 ms (67.1 GB/s)"
    )
    assert judge_devices_together("staged", [], 2, [2e-3]) == warn(
        "device arrays",
        "all_reduce by staged: 1 KiB in 2.0 ms, through the memory of the hosts",
        "pip install 'shardwise[cuda12]', or [cuda13], brings NCCL; one GPU per rank",
    )

"""How ranks share cores and threads."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise.launch.cores import THREAD_VARIABLES, find_cores, split_cores, thread_environment


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=70, unique=True), st.data())
def test_shares_are_disjoint_whole_and_even(cores: list[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(cores)))
    shares = split_cores(cores, n)
    assert [core for share in shares for core in share] == cores
    sizes = {len(share) for share in shares}
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    assert len(shares) == n


@pytest.mark.parametrize("n", [0, 3])
def test_a_core_for_each_or_an_error(n: int) -> None:
    with pytest.raises(
        ValueError, match=re.escape(f"cannot give each of {n} ranks a core of its own: there are 2 cores")
    ):
        split_cores([4, 5], n)


def test_found_cores_are_those_of_the_affinity_mask() -> None:
    cores = find_cores()
    assert set(cores.allowed) == os.sched_getaffinity(0)
    assert 1 <= cores.count <= len(cores.allowed)


def test_a_quota_counts_but_does_not_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardwise.launch.cores.os.sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr("shardwise.launch.cores._cpu_quota", lambda: 2.5)
    cores = find_cores()
    assert (len(cores.allowed), cores.count, cores.pinnable) == (8, 3, False)


def test_hardware_threads_of_a_core_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    # As Linux numbers them on many machines: 0 and 4 are threads of one core, 1 and 5 of the next.
    monkeypatch.setattr("shardwise.launch.cores.os.sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr("shardwise.launch.cores._physical_place", lambda core: (0, core % 4, core))
    monkeypatch.setattr("shardwise.launch.cores._cpu_quota", lambda: None)
    assert split_cores(find_cores().allowed, 2) == ((0, 4, 1, 5), (2, 6, 3, 7))


def test_only_what_the_user_left_open_is_set() -> None:
    assert thread_environment(3, {}) == dict.fromkeys(THREAD_VARIABLES, "3")
    assert thread_environment(3, {"OMP_NUM_THREADS": "1"}) == {}
    expected = dict.fromkeys(THREAD_VARIABLES, "3")
    del expected["MKL_NUM_THREADS"]
    assert thread_environment(3, {"MKL_NUM_THREADS": "9"}) == expected

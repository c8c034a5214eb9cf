"""Laws of the bucket plan."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shardwise.parallel import plan_buckets
from shardwise.parallel.bucket import Bucket

DTYPES = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16)]
PARAMETERS = st.lists(st.tuples(st.integers(0, 3000), st.sampled_from(DTYPES)), max_size=30)
CAPS = st.integers(1, 20_000)


@given(PARAMETERS, CAPS, st.none() | CAPS)
def test_laws(parameters: list[tuple[int, np.dtype]], cap: int, first_cap: int | None) -> None:
    sizes, dtypes = [n for n, _ in parameters], [d for _, d in parameters]
    plans = plan_buckets(sizes, dtypes, cap, first_cap)
    slots = [(plan, slot) for plan in plans for slot in plan.slots]
    assert sorted(slot.index for _, slot in slots) == list(range(len(sizes)))  # each in exactly one place
    for plan, slot in slots:
        assert slot.size == sizes[slot.index]
        assert plan.dtype == dtypes[slot.index]
        assert slot.start * plan.dtype.itemsize % 64 == 0
    for plan in plans:
        end = 0
        for slot in plan.slots:
            assert slot.start >= end  # no overlap, in ascending order
            assert slot.start - end < 64  # and no more gap than alignment asks for
            end = slot.start + slot.size
        assert plan.size >= end
        indices = [slot.index for slot in plan.slots]
        assert indices == sorted(indices, reverse=True)  # last parameter first
    # full in this order: when the earliest parameter of each has its gradient
    firsts = [plan.slots[-1].index for plan in plans]
    assert firsts == sorted(firsts, reverse=True)
    for dtype in DTYPES:
        mine = [plan for plan in plans if plan.dtype == dtype]
        for k, plan in enumerate(mine):
            limit = cap if k or first_cap is None else first_cap
            without_last = plan.slots[-1].start * dtype.itemsize
            assert without_last < limit  # else it would have been closed before
            if plan is not mine[-1]:
                assert plan.size * dtype.itemsize >= limit  # only the last may be left open
    assert plan_buckets(sizes, dtypes, cap, first_cap) == plans


def test_an_example() -> None:
    kinds = [DTYPES[0], DTYPES[1], DTYPES[0], DTYPES[0]]
    plans = plan_buckets([16, 8, 100, 20], kinds, cap_bytes=500)
    shown = [(str(p.dtype), p.size, [(s.index, s.start, s.size) for s in p.slots]) for p in plans]
    assert shown == [
        ("float32", 144, [(3, 0, 20), (2, 32, 100)]),
        ("float64", 8, [(1, 0, 8)]),
        ("float32", 16, [(0, 0, 16)]),
    ]


def test_nothing_to_plan() -> None:
    assert plan_buckets([], [], 1) == ()


def test_views_lie_in_the_bucket() -> None:
    (plan,) = plan_buckets([6, 4], DTYPES[:1] * 2, 10_000)
    bucket = Bucket(plan, np.zeros(plan.size, np.float32))
    for slot, shape in zip(plan.slots, [(2, 2), (2, 3)], strict=True):
        view = bucket.view(slot, shape)
        assert view.shape == shape
        view[...] = slot.index + 1.0
    assert bucket.flat.sum() == 6 * 1 + 4 * 2
    assert bucket.missing == {0, 1}
    bucket.missing.clear()
    bucket.reset()
    assert bucket.missing == {0, 1}

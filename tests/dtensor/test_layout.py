"""Layouts: who holds what, against numbers cut one by one; values; what is refused."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import random
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_oracle import indices, nested_pieces, random_layout
from shardwise.collectives import run_threads
from shardwise.dtensor import Box, Layout, Partial, Replicate, Shard, Spec
from shardwise.dtensor.layout import chunk_ranges
from shardwise.errors import LayoutError
from shardwise.mesh import DeviceMesh


def on(sizes: tuple[int, ...], call: Callable[[DeviceMesh], object]) -> object:
    """Call with a mesh of axes a, b, ... on all ranks; give what all of them got."""
    names = tuple("abc"[: len(sizes)])

    def work(rank: int) -> object:
        return call(DeviceMesh("cpu", np.arange(np.prod(sizes)).reshape(sizes), names))

    results = run_threads(work, int(np.prod(sizes)))
    assert all(result == results[0] for result in results)
    return results[0]


def pieces(mesh: DeviceMesh, placements: object, n: int) -> list[list[int]]:
    """Give which of n places the ranks hold, in their order."""
    layout = Layout(mesh, placements, (n,), "f4")  # type: ignore[arg-type]
    boxes = [layout.box(at) for at in np.ndindex(*mesh.shape)]
    return [list(range(at, at + length)) for ((at,), (length,)) in boxes]


CEIL = [
    (9, 4, [3, 3, 3, 0]),
    (6, 4, [2, 2, 2, 0]),
    (5, 4, [2, 2, 1, 0]),
    (1, 3, [1, 0, 0]),
    (0, 2, [0, 0]),
]


@pytest.mark.parametrize(("n", "width", "sizes"), CEIL)
def test_pieces_are_as_long_as_the_longest_while_there_are_any(n: int, width: int, sizes: list[int]) -> None:
    assert on((width,), lambda mesh: [len(each) for each in pieces(mesh, ["S(0)"], n)]) == sizes


NESTED = [
    (7, ["S(0)", "S(0)"], [[0, 1], [2, 3], [], [4], [5], [6]]),
    (8, ["S(0)", "S(0)"], [[0, 1], [2, 3], [], [4, 5], [6, 7], []]),
    (12, Spec(("b", "a")), [[0, 1], [4, 5], [8, 9], [2, 3], [6, 7], [10, 11]]),  # by b, then by a
]


@pytest.mark.parametrize(("n", "placements", "wanted"), NESTED)
def test_axes_cut_what_those_before_have_left(n: int, placements: object, wanted: list[list[int]]) -> None:
    assert on((2, 3), lambda mesh: pieces(mesh, placements, n)) == wanted


def test_a_rank_without_a_piece_keeps_the_other_dims() -> None:
    def work(mesh: DeviceMesh) -> object:
        layout = Layout(mesh, ["S(0)"], (6, 5), "f4")
        return (
            layout.local_shape((3,)),
            layout.local_offset((3,)),
            layout.boxes((3,)),
            layout.local_shape(None),
        )

    assert on((4,), work) == ((0, 5), (6, 0), (), (0,))


@given(st.integers(0, 40), st.lists(st.integers(1, 5), max_size=3))
def test_ranges_are_those_of_brute_force(n: int, widths: list[int]) -> None:
    ranges = chunk_ranges(n, widths)
    assert [list(range(*each)) for each in ranges] == nested_pieces(n, widths)


@given(
    st.integers(0, 2**32),
    st.sampled_from([(1,), (3,), (4,), (2, 2), (2, 3), (2, 2, 2)]),
    st.lists(st.integers(0, 9), max_size=3).map(tuple),
)
def test_boxes_tile_the_whole(seed: int, sizes: tuple[int, ...], shape: tuple[int, ...]) -> None:
    def work(rank: int) -> None:
        if rank:
            return  # a layout is the same on all
        mesh = DeviceMesh("cpu", np.arange(np.prod(sizes)).reshape(sizes))
        layout = random_layout(mesh, shape, "f4", random.Random(seed), ("sum",))
        count = np.zeros(shape, int)
        held: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for at in np.ndindex(*sizes):
            box = layout.box(at)
            assert [list(range(a, a + n)) for a, n in zip(*box, strict=True)] == [
                each or list(range(length, length))
                for each, length in zip(indices(layout, at), shape, strict=True)
            ]
            assert layout.boxes(at) == (() if 0 in box.shape else (box,))
            count[box.slices] += 1
            for index in itertools.product(*indices(layout, at)):
                held.setdefault(index, []).append(at)
        sharding = [axis for axes in layout.order for axis in axes]
        copies = np.prod(sizes) // np.prod([sizes[axis] for axis in sharding], dtype=int)
        assert (count == copies).all()
        for index, places in held.items():
            assert sorted(layout.holders(index)) == sorted(places)
            assert layout.owner(index) == min(places)

    run_threads(work, int(np.prod(sizes)))


def test_equal_layouts_are_one_object_as_long_as_anyone_has_it() -> None:
    mesh = DeviceMesh("cpu", [0], ("a",))
    layout = Layout(mesh, ["S(-1)"], (4, 6), "float32")
    same = Layout(DeviceMesh("cpu", [0], ("a",)), Spec(None, "a"), [4, 6], np.float32)  # type: ignore[arg-type]
    assert layout is same
    assert layout is Layout(mesh, [Shard(1, (6,))], (4, 6), "f4")  # the sizes that it has anyway
    assert pickle.loads(pickle.dumps(layout)) is layout
    assert copy.deepcopy(layout) is layout is copy.copy(layout)
    assert layout is not Layout(mesh, ["S(0)"], (4, 6), "f4")
    assert layout.with_placements("R") is layout.replicated()
    assert layout.with_dtype("f8").with_dtype("f4") is layout
    gone = weakref.ref(layout)
    del layout, same
    gc.collect()
    assert gone() is None


def test_what_a_layout_says_of_itself() -> None:
    def work(mesh: DeviceMesh) -> object:
        layout = Layout(mesh, Spec(("b", "a"), partial={"c": "max"}), (8, 3), "f4")
        assert Layout(mesh, layout.spec, (8, 3), "f4") is layout
        return str(layout), repr(layout), layout.order, layout.partial, layout.numel, layout.is_replicated

    assert on((2, 3, 1), work) == (
        "S(0)#1 S(0)#0 P(max)",
        "Layout(float32[8, 3] on (a=2, b=3, c=1): S(0)#1 S(0)#0 P(max))",
        ((1, 0), ()),
        (2,),
        24,
        False,
    )


def test_layouts_never_change() -> None:
    layout = Layout(DeviceMesh("cpu", [0]), ["R"], (4,), "f4")
    for change in (lambda: setattr(layout, "shape", (5,)), lambda: delattr(layout, "shape")):
        with pytest.raises(AttributeError, match="a Layout never changes; make another one"):
            change()


REFUSED = [
    (["R"], (4,), "f4", "has 2 axes and needs as many placements, got 1: (Replicate(),)"),
    (["S(1)", "R"], (4,), "f4", "Shard(1): the dims of a tensor with 1 are -1 to 0"),
    (["S(0)", "R"], (), "f4", "Shard(0): a tensor without dims has none"),
    (["P", "P(max)"], (4,), "f4", "a tensor cannot be max and sum at once"),
    (["P(avg)", "R"], (4,), "i4", "Partial(avg) of int32 has no exact value; use Partial(sum)"),
    ([Shard(0, (1, 2)), "R"], (4,), "f4", "of a dim of size 4 over 2 ranks: wanted 2 sizes with the sum 4"),
    ([Shard(0, (1, 3)), "S(0)"], (4,), "f4", "axes that shard one dim must tell the same sizes"),
    (Spec("a", "a"), (4, 4), "f4", "uses axis 'a' twice"),
    (Spec("a", None), (4,), "f4", "tells of 2 dims, but the tensor has 1"),
]


@pytest.mark.parametrize(("placements", "shape", "dtype", "reason"), REFUSED)
def test_refused(placements: object, shape: tuple[int, ...], dtype: str, reason: str) -> None:
    def work(mesh: DeviceMesh) -> str:
        with pytest.raises(LayoutError) as error:
            Layout(mesh, placements, shape, dtype)  # type: ignore[arg-type]
        return str(error.value)

    assert reason in str(on((2, 2), work))


def test_elements_that_are_not_there() -> None:
    layout = Layout(DeviceMesh("cpu", [0]), ["S(0)"], (4,), "f4")
    assert layout.owner((-1,)) == (0,)
    with pytest.raises(LayoutError, match=r"there is no element \(4,\) in a tensor of shape \(4,\)"):
        layout.owner((4,))


def test_boxes_index_the_whole() -> None:
    assert np.arange(20).reshape(4, 5)[Box((1, 2), (2, 2)).slices].tolist() == [[7, 8], [12, 13]]


def test_replicated_and_partial_are_told_apart() -> None:
    mesh = DeviceMesh("cpu", [0])
    kinds = [Layout(mesh, [each], (4,), "f4") for each in (Replicate(), Shard(0), Partial())]
    assert [each.is_replicated for each in kinds] == [True, False, False]

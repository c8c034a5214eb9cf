"""Trees: containers taken apart and put together."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise.errors import ArgumentError
from shardwise.tensor.tree import tree_flatten, tree_leaves, tree_map, tree_unflatten


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class Frozen:
    w: Any
    name: str = "frozen"


@dataclass
class Open:
    w: Any
    inner: Any = None


LEAVES = st.one_of(st.integers(), st.text(max_size=2), st.floats(allow_nan=False))
TREES = st.recursive(
    LEAVES | st.none(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.builds(Pair, inner, inner),
        st.builds(Open, inner, inner),
        st.builds(Frozen, inner),
    ),
    max_leaves=8,
)


@given(TREES)
def test_what_is_taken_apart_can_be_put_together(tree: Any) -> None:
    leaves, structure = tree_flatten(tree)
    assert structure.num_leaves == len(leaves)
    assert tree_unflatten(structure, leaves) == tree
    assert structure.flatten_up_to(tree) == leaves
    assert None not in leaves
    counted = tree_unflatten(structure, range(len(leaves)))
    assert tree_leaves(counted) == list(range(len(leaves)))
    assert tree_flatten(counted)[1] == structure
    assert hash(tree_flatten(counted)[1]) == hash(structure)


def test_containers_keep_their_kind() -> None:
    tree = {
        "ordered": OrderedDict(b=1, a=2),
        "default": defaultdict(list, x=3),
        "pair": Pair(4, [5]),
        "frozen": Frozen(6),
        "array": np.arange(2),
    }
    doubled = tree_map(lambda leaf: leaf if isinstance(leaf, str) else leaf * 2, tree)
    assert doubled["ordered"] == OrderedDict(b=2, a=4)
    assert type(doubled["ordered"]) is OrderedDict
    assert doubled["default"]["missing"] == []
    assert doubled["pair"] == Pair(8, [10])
    assert doubled["frozen"] == Frozen(12)
    assert doubled["array"].tolist() == [0, 2]
    assert tree["default"] == {"x": 3}
    assert tree["frozen"] == Frozen(6)


def test_a_dataclass_keeps_what_is_no_field() -> None:
    one = Open(1)
    one.note = "kept"  # type: ignore[attr-defined]
    two = tree_map(lambda leaf: leaf + 1, one)
    assert (two.w, two.inner, two.note, one.w) == (2, None, "kept", 1)


def test_others_are_matched_by_key_and_passed_whole() -> None:
    params, grads = {"w": 1.0, "n": 3}, {"n": None, "w": 10.0}
    assert tree_map(lambda p, g: p if g is None else p - g, params, grads) == {"w": -9.0, "n": 3}
    assert tree_map(lambda a, b: (a, b), [1, 2], [[3, 4], 5]) == [(1, [3, 4]), (2, 5)]


def test_trees_that_differ_are_told_apart() -> None:
    Other = namedtuple("Other", "a b")
    for other, message in (
        ({"a": [1, 2, 3]}, "the trees differ at ['a']: wanted list of 2, got list of 3"),
        ({"a": (1, 2)}, "the trees differ at ['a']: wanted list of 2, got tuple of 2"),
        ({"b": [1, 2]}, "the trees differ: wanted dict with ['a'], got dict with ['b']"),
        ({"a": None}, "the trees differ at ['a']: wanted list of 2, got None"),
        (np.ones(2), "the trees differ: wanted dict with ['a'], got ndarray"),
    ):
        with pytest.raises(ArgumentError) as caught:
            tree_map(lambda a, b: a, {"a": [1, 2]}, other)
        assert str(caught.value) == message
    with pytest.raises(ArgumentError, match="wanted Pair of 2, got Other of 2"):
        tree_map(lambda a, b: a, Pair(1, 2), Other(1, 2))
    with pytest.raises(ArgumentError, match="the structure has 2 leaves, and got 3"):
        tree_unflatten(tree_flatten([1, 2])[1], [1, 2, 3])

"""Which rank goes where: tables of hosts and shapes, brute force over orders, and the warning."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise.collectives import get_world, run_threads
from shardwise.mesh import PlacementWarning, init_device_mesh
from shardwise.mesh.host import crossings, host_advice, host_order

ORDERS = [
    # ranks of a host lie together already, or there is one host
    ("aaaa", (2, 2), "0123"),
    ("aabb", (2, 2), "0123"),
    ("aaaabbbb", (2, 2, 2), "01234567"),
    ("bbaa", (2, 2), "0123"),
    # dealt out one by one
    ("abab", (2, 2), "0213"),
    ("abcabc", (3, 2), "031425"),
    ("abababab", (2, 4), "02461357"),
    ("abababab", (2, 2, 2), "02461357"),
    ("abababab", (4, 2), "02134657"),  # the outer axis fits nowhere, so it stays as it was
    ("aabbaabb", (2, 4), "01452367"),
    # nothing inside can be gained
    ("abab", (4,), "0123"),
    ("abab", (4, 1), "0123"),
    ("abcd", (2, 2), "0123"),
    # hosts of different sizes
    ("aaabbbbc", (2, 4), "01273456"),
    ("aaabbbbb", (2, 4), "01234567"),
    ("aaaaaabbbbbb", (3, 4), "0123456789xy"),
]


def digits(text: str) -> list[int]:
    return ["0123456789xy".index(letter) for letter in text]


@pytest.mark.parametrize(("hosts", "shape", "expected"), ORDERS)
def test_the_order_of_ranks(hosts: str, shape: tuple[int, ...], expected: str) -> None:
    assert host_order(hosts, shape) == digits(expected)


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).filter(lambda shape: np.prod(shape) <= 24)


@given(st.data())
def test_an_order_is_a_permutation_and_no_worse(data: st.DataObject) -> None:
    shape = data.draw(shapes)
    size = int(np.prod(shape))
    hosts = data.draw(st.lists(st.sampled_from("abc"), min_size=size, max_size=size))
    order, plain = host_order(hosts, shape), list(range(size))
    assert sorted(order) == plain
    counts = blocks_on_several_hosts(order, hosts, shape)
    assert counts == crossings(order, hosts, shape)
    assert order == plain or counts < blocks_on_several_hosts(plain, hosts, shape)


@given(st.data())
def test_the_innermost_axis_is_inside_hosts_wherever_it_can_be(data: st.DataObject) -> None:
    """As many blocks of the innermost axis as fit: each host has that many, whatever is done."""
    shape = data.draw(shapes)
    size = int(np.prod(shape))
    hosts = data.draw(st.lists(st.sampled_from("abc"), min_size=size, max_size=size))
    fit = sum(hosts.count(host) // shape[-1] for host in "abc")
    assert crossings(host_order(hosts, shape), hosts, shape)[0] == size // shape[-1] - fit


def test_no_order_is_better_for_two_axes() -> None:
    """Against all orders of six ranks."""
    for hosts in ("ababab", "aababb", "abcabc", "aaabbc"):
        for shape in ((3, 2), (2, 3)):
            best = min(crossings(order, hosts, shape) for order in itertools.permutations(range(6)))
            assert crossings(host_order(hosts, shape), hosts, shape) == best


def blocks_on_several_hosts(order: list[int], hosts: list[str], shape: list[int]) -> list[int]:
    grid = np.array([ord(hosts[rank]) for rank in order]).reshape(shape)
    counts = []
    for inner in range(1, len(shape) + 1):
        rows = grid.reshape(int(np.prod(shape[: len(shape) - inner])), -1)
        counts.append(int((rows.min(axis=1) != rows.max(axis=1)).sum()))
    return counts


NETWORK = "so what it sends goes over the network"
ADVICE: list[tuple[str, tuple[int, ...], tuple[str, ...] | None, str | None]] = [
    ("aaaabbbb", (2, 4), ("dp", "tp"), None),
    ("aaaabbbb", (2, 4), None, None),
    ("aaaabbbb", (8,), ("dp",), None),
    ("aaaabbbb", (8,), None, None),  # one axis without a name is data parallelism
    ("aaaabbbb", (4, 2), ("dp", "pp"), None),
    ("abab", (4, 1), ("dp", "tp"), None),
    (
        "aaaabbbb",
        (8,),
        ("tp",),
        f"'tp', of 8 ranks, crosses hosts in 1 of 1 groups, {NETWORK}: no host has more than 4 of its ranks. "
        f"The shape (2, 4) with the axes ('dp', 'tp') keeps it inside.",
    ),
    (
        "aaaabbbb",
        (1, 8),
        None,
        f"the last axis, of 8 ranks, crosses hosts in 1 of 1 groups, {NETWORK}: no host has more than 4 of "
        f"its ranks. The shape (2, 4) keeps it inside.",
    ),
    (
        "aaaabbbb",
        (4, 2),
        ("tp", "dp"),
        f"'tp', of 4 ranks, crosses hosts in 2 of 2 groups, {NETWORK}: it would fit into a host. "
        f"The shape (2, 4) with the axes ('dp', 'tp') keeps it inside.",
    ),
    (
        "aaabbb",
        (2, 3, 1),
        ("tp", "dp", "cp"),
        f"'tp', of 2 ranks, crosses hosts in 3 of 3 groups, {NETWORK}: it would fit into a host. "
        f"Start as many ranks on every host, a multiple of the size of this axis, to keep it inside.",
    ),
    (
        "aaabbbbb",
        (2, 4),
        ("dp", "tp"),
        f"'tp', of 4 ranks, crosses hosts in 1 of 2 groups, {NETWORK}: it would fit into a host. "
        f"Start as many ranks on every host, a multiple of the size of this axis, to keep it inside.",
    ),
]


@pytest.mark.parametrize(("hosts", "shape", "names", "expected"), ADVICE)
def test_advice(
    hosts: str, shape: tuple[int, ...], names: tuple[str, ...] | None, expected: str | None
) -> None:
    ranks = np.array(host_order(hosts, shape), np.int64).reshape(shape)
    assert host_advice(hosts, ranks, names) == expected


def on_hosts(hosts: str, shape: tuple[int, ...], names: tuple[str, ...] | None) -> list[Any]:
    """Make the mesh on each rank of a world that takes itself for several hosts."""

    def one(rank: int) -> Any:
        get_world().hosts = tuple(hosts)
        return init_device_mesh("cpu", shape, mesh_dim_names=names)

    return run_threads(one, len(hosts))


def test_ranks_that_were_dealt_out_over_hosts() -> None:
    meshes = on_hosts("abab", (2, 2), ("dp", "tp"))
    assert [mesh.mesh.tolist() for mesh in meshes] == [[[0, 2], [1, 3]]] * 4
    assert len(set(meshes)) == 1
    assert repr(meshes[0]) == "DeviceMesh('cpu', dp=2, tp=2, ranks=[[0, 2], [1, 3]])"


def test_a_mesh_of_some_ranks_takes_the_first_ones() -> None:
    [mesh, *_] = on_hosts("ababb", (2, 2), None)
    assert mesh.mesh.tolist() == [[0, 2], [1, 3]]


def test_one_rank_warns() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        on_hosts("aabb", (-1,), ("tp",))
    [warning] = caught
    assert warning.category is PlacementWarning
    assert warning.filename == __file__
    assert str(warning.message) == (
        f"init_device_mesh of shape (4,): 'tp', of 4 ranks, crosses hosts in 1 of 1 groups, {NETWORK}: no "
        f"host has more than 2 of its ranks. The shape (2, 2) with the axes ('dp', 'tp') keeps it inside."
    )

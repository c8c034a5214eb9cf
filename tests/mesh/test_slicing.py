"""Parts of a mesh, flattened, unflattened and joined, against what the definitions say place by place."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise.collectives import explain, run_threads
from shardwise.errors import LayoutError
from shardwise.mesh import DeviceMesh, init_device_mesh
from shardwise.mesh.joining import find_digits, join_grids

NAMES = ("pp", "dp", "cp", "tp")


def message(call: Callable[[], object]) -> str:
    with pytest.raises(LayoutError) as error:
        call()
    return str(error.value)


@st.composite
def meshes(draw: st.DrawFn, most: int = 8) -> tuple[Any, tuple[str, ...]]:
    """Ranks in any order, in a shape of one to four axes."""
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4).filter(lambda s: math.prod(s) <= most))
    ranks = draw(st.permutations(range(math.prod(shape))))
    return np.array(ranks).reshape(shape), NAMES[: len(shape)]


@given(meshes(), st.data())
@settings(max_examples=60)
def test_a_part_has_the_ranks_that_differ_along_its_axes(
    given_mesh: tuple[Any, tuple[str, ...]], data: st.DataObject
) -> None:
    ranks, names = given_mesh
    kept = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    at = {int(ranks[place]): dict(zip(names, place, strict=True)) for place in np.ndindex(ranks.shape)}

    def one(rank: int) -> None:
        mesh = DeviceMesh("cpu", ranks, names)
        part = mesh[tuple(kept)]
        assert part.mesh_dim_names == tuple(kept)
        assert part.shape == tuple(ranks.shape[names.index(name)] for name in kept)
        for place in np.ndindex(part.shape):
            wanted = {**at[rank], **dict(zip(kept, place, strict=True))}
            assert at[int(part.mesh[place])] == wanted
        assert part.get_coordinate() == tuple(at[rank][name] for name in kept)
        assert [part.get_group(name) for name in kept] == [mesh.get_group(name) for name in kept]
        assert part[kept[0]] == mesh[kept[0]]

    run_threads(one, ranks.size)


@given(meshes(), st.data())
@settings(max_examples=60)
def test_a_merged_axis_runs_row_by_row(given_mesh: tuple[Any, tuple[str, ...]], data: st.DataObject) -> None:
    ranks, names = given_mesh
    merged = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    at = {int(ranks[place]): dict(zip(names, place, strict=True)) for place in np.ndindex(ranks.shape)}

    def one(rank: int) -> None:
        flat = DeviceMesh("cpu", ranks, names).flatten(merged, "all")
        assert flat.mesh_dim_names is not None
        others = [name for name in names if name not in merged]
        outermost = min(names.index(name) for name in merged)
        before = [name for name in others if names.index(name) < outermost]
        assert flat.mesh_dim_names == (*before, "all", *others[len(before) :])
        sizes = [ranks.shape[names.index(name)] for name in merged]
        combinations = list(itertools.product(*map(range, sizes)))
        assert flat.size("all") == len(combinations)
        for place in np.ndindex(flat.shape):
            wanted = dict(zip(flat.mesh_dim_names, place, strict=True))
            wanted |= dict(zip(merged, combinations[wanted.pop("all")], strict=True))
            assert at[int(flat.mesh[place])] == wanted
        assert flat["all"] == DeviceMesh("cpu", ranks, names)[tuple(merged)].flatten("all")
        back = flat.unflatten("all", sizes, merged)
        assert back[names] == DeviceMesh("cpu", ranks, names)

    run_threads(one, ranks.size)


@given(st.data())
@settings(max_examples=60)
def test_joined_parts_are_the_part_along_all_their_axes(data: st.DataObject) -> None:
    """Whatever was done to the axes before."""
    size = data.draw(st.sampled_from([4, 6, 8, 12]))
    order = data.draw(st.permutations(range(size)))
    factors = data.draw(st.permutations({4: [2, 2], 6: [2, 3], 8: [2, 2, 2], 12: [2, 3, 2]}[size]))
    names = [f"a{i}" for i in range(len(factors))]
    axes = data.draw(st.permutations(names))
    merged = data.draw(st.integers(0, len(axes)))  # these become one axis
    if merged >= 2:
        axes = ["m", *axes[merged:]]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(axes)))) | {len(axes)})
    groups = [axes[a:b] for a, b in itertools.pairwise([0, *cuts])]
    members = data.draw(st.integers(1, len(groups)))

    def one(rank: int) -> None:
        mesh = DeviceMesh("cpu", order, ["world"]).unflatten("world", factors, names)
        if axes[0] == "m":
            mesh = mesh.flatten([name for name in names if name not in axes], "m")
        joined = DeviceMesh.concatenate([mesh[tuple(group)] for group in groups[:members]])
        wanted = tuple(name for group in groups[:members] for name in group)
        assert joined == mesh[wanted]

    run_threads(one, size)


def test_parts_of_two_views_of_one_mesh() -> None:
    """Experts and dense layers divide the same ranks differently."""

    def one(rank: int) -> None:
        world = init_device_mesh("cpu", (2, 4), mesh_dim_names=("pp", "rest"))
        dense = world.unflatten("rest", (2, 2), ("dp", "tp"))
        sparse = world.unflatten("rest", (2, 2), ("efsdp", "ep"))
        both = DeviceMesh.concatenate([world["pp"], sparse["ep"]])
        assert both == sparse["pp", "ep"]
        mixed = DeviceMesh.concatenate([dense["dp"], sparse["ep"], dense["pp"]])
        assert mixed.mesh_dim_names == ("dp", "ep", "pp")
        assert mixed.mesh.tolist() == np.arange(8).reshape(2, 2, 2).transpose(1, 2, 0).tolist()
        copies = [pickle.loads(pickle.dumps(part)) for part in (dense["dp"], sparse["ep"], world["pp"])]
        assert DeviceMesh.concatenate(copies) == mixed  # parts know their mesh after a pickle too
        made = DeviceMesh("cpu", dense["dp"].mesh, ("dp",))  # and an equal mesh is a part as well
        assert DeviceMesh.concatenate([made, world["pp"]]) == dense["dp", "pp"]

    run_threads(one, 8)


def test_axes_of_unequal_digits_that_overlap() -> None:
    """3 times 2 and 2 times 3 of the same six ranks: neither axis is part of the other's division."""

    def one(rank: int) -> str:
        world = init_device_mesh("cpu", (6,), mesh_dim_names=("all",))
        a = world.unflatten("all", (3, 2), ("a", "b"))["b"]
        c = world.unflatten("all", (2, 3), ("c", "d"))["c"]
        said = message(lambda: DeviceMesh.concatenate([a, c]))
        return said.partition(": they ")[2]

    assert set(run_threads(one, 6)) == {
        "overlap; each must run along axes of the mesh (6,) that the others fix"
    }


def test_digits() -> None:
    root = np.arange(24).reshape(2, 3, 4)
    assert find_digits(root) == [(2, 12), (3, 4), (4, 1)]
    assert find_digits(root.reshape(24)) == [(24, 1)]
    assert find_digits(root.transpose(1, 0, 2).reshape(24)) == [(4, 1), (2, 12), (3, 4)]
    assert find_digits(np.array([5])) == []
    for odd in ([0, 1, 3], [0, 1, 2, 4, 5, 7], [0, 1, 4, 6]):
        assert find_digits(np.array(odd)) is None
    assert find_digits(np.array([[0, 1], [2, 4]])) is None
    root = np.arange(4)
    with pytest.raises(LayoutError, match=r"^x: they overlap"):  # 1 + 1 + 2 is nowhere
        join_grids(root, [np.array([1, 2]), np.array([1, 3])], "x")


# ---- values


def test_parts_are_remembered_and_equal_those_made_anew() -> None:
    def one(rank: int) -> None:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        with explain() as moved:
            assert mesh["tp"] is mesh["tp"]
            assert mesh["dp", "tp"] is mesh
            assert mesh["tp",] is mesh["tp"]["tp"]
            assert mesh["tp"] == DeviceMesh("cpu", [rank // 2 * 2, rank // 2 * 2 + 1], ("tp",))
            assert mesh["tp", "dp"].mesh.tolist() == [[0, 2], [1, 3]]
            assert mesh.flatten(("dp",), "dp") is mesh
            assert mesh["dp"].flatten() is mesh["dp"]
            assert mesh["dp"].flatten("replica").mesh_dim_names == ("replica",)
            assert mesh.flatten().mesh_dim_names == ("dp_tp",)
            assert mesh.flatten(("tp", "dp")).mesh_dim_names == ("tp_dp",)
            assert mesh.flatten((-1,), "x").mesh_dim_names == ("dp", "x")
            assert DeviceMesh.concatenate([mesh["tp"]]) is mesh["tp"]
            assert [group.ranks for group in mesh.get_all_groups()] == [
                mesh.get_group("dp").ranks,
                mesh.get_group("tp").ranks,
            ]
        assert moved.records == []

    run_threads(one, 4)


def test_threads_that_share_a_mesh_see_their_own_parts() -> None:
    mesh = run_threads(lambda rank: init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")), 4)[
        0
    ]  # of rank 0

    def one(rank: int) -> tuple[Any, ...]:
        assert mesh.get_coordinate() == mesh.get_coordinate() == divmod(rank, 2)
        return mesh["tp"].mesh.tolist(), mesh.get_group("dp").ranks

    assert run_threads(one, 4) == [
        ([0, 1], (0, 2)),
        ([0, 1], (1, 3)),
        ([2, 3], (0, 2)),
        ([2, 3], (1, 3)),
    ]


def test_meshes_without_names() -> None:
    mesh = DeviceMesh("cpu", [[0]])
    assert mesh.flatten().mesh_dim_names is None
    assert mesh.flatten("all").mesh_dim_names == ("all",)
    assert mesh.flatten((0,)) is mesh
    assert mesh.unflatten(0, (1, -1)).shape == (1, 1, 1)
    assert DeviceMesh.concatenate([mesh, mesh]).shape == (1, 1, 1, 1)


# ---- refused


def test_ranks_outside_have_no_part() -> None:
    def one(rank: int) -> Any:
        mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
        if rank < 2:
            return mesh["tp"].mesh.tolist()
        assert mesh.get_coordinate() is None
        assert mesh["tp", "dp"].get_coordinate() is None  # the whole mesh, which they may hold
        assert mesh.flatten().mesh.tolist() == [0, 1]
        return message(lambda: mesh["tp"])

    said = "rank 2 is not in DeviceMesh('cpu', dp=1, tp=2), so it has no part along ('tp',) there"
    assert run_threads(one, 3) == [[0, 1], [0, 1], said]


SHOWN = "DeviceMesh('cpu', dp=1, tp=1)"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda mesh: mesh["pp"], f"{SHOWN} has no axis 'pp'; its axes are ('dp', 'tp')"),
        (lambda mesh: mesh["dp", "dp"], f"wanted different axes of {SHOWN}, at least one; got ('dp', 'dp')"),
        (lambda mesh: mesh[0], f"{SHOWN} is sliced by names of axes, as mesh['dp', 'tp']; got (0,)"),
        (
            lambda mesh: mesh[["dp"]],
            f"{SHOWN} is sliced by names of axes, as mesh['dp', 'tp']; got (['dp'],)",
        ),
        (lambda mesh: list(mesh), f"{SHOWN} is sliced by names of axes, as mesh['dp', 'tp']; got (0,)"),
        (
            lambda mesh: mesh.flatten((1.5,)),
            f"an axis of {SHOWN} is told by its name or number; got 1.5",
        ),
        (
            lambda mesh: mesh.unflatten(None, (1, 1)),
            f"an axis of {SHOWN} is told by its name or number; got None",
        ),
        (
            lambda mesh: mesh.unflatten("dp", 2, ("a",)),
            f"unflatten axis 'dp' of {SHOWN}: it has 1 ranks, and the sizes (2,) do not multiply to that",
        ),
        (lambda mesh: mesh[()], f"wanted different axes of {SHOWN}, at least one; got ()"),
        (
            lambda mesh: mesh.flatten(("dp", 0)),
            f"wanted different axes of {SHOWN}, at least one; got ('dp', 0)",
        ),
        (
            lambda mesh: mesh.flatten("dp", "x"),
            "flatten: mesh_dims is 'dp', wanted a tuple of axes; write ('dp',)",
        ),
        (
            lambda mesh: mesh.flatten("tp"),
            f"flatten {SHOWN}: it has an axis 'tp' already; choose another mesh_dim_name",
        ),
        (
            lambda mesh: mesh.flatten(("dp",), "tp"),
            f"flatten {SHOWN}: it has an axis 'tp' already; choose another mesh_dim_name",
        ),
        (
            lambda mesh: mesh.flatten((0,), ""),
            "mesh_dim_names must be a tuple of names, such as ('dp',), got ('', 'tp')",
        ),
        (
            lambda mesh: mesh.unflatten("dp", (2, -1), ("a", "b")),
            f"unflatten axis 'dp' of {SHOWN}: it has 1 ranks, and the sizes (2, -1) do not multiply to that",
        ),
        (
            lambda mesh: mesh.unflatten(0, (2, 2), ("a", "b")),
            f"unflatten axis 0 of {SHOWN}: it has 1 ranks, and the sizes (2, 2) do not multiply to that",
        ),
        (
            lambda mesh: mesh.unflatten(0, (-1, -1), ("a", "b")),
            "a mesh shape has positive whole sizes and at most one -1; got (-1, -1)",
        ),
        (
            lambda mesh: mesh.unflatten(0, (1, 1)),
            f"unflatten axis 0 of {SHOWN}: the mesh has names; give mesh_dim_names, 2 of them",
        ),
        (
            lambda mesh: mesh.unflatten(0, (1, 1), ("a",)),
            "a mesh of shape (1, 1) needs 2 mesh_dim_names, got ('a',)",
        ),
        (
            lambda mesh: mesh.unflatten(0, (1, 1), ("a", "tp")),
            "mesh_dim_names must be different from each other, got ('a', 'tp', 'tp')",
        ),
        (
            lambda mesh: DeviceMesh.concatenate([]),
            "concatenate: wanted a list of meshes, at least one; got []",
        ),
        (
            lambda mesh: DeviceMesh.concatenate([mesh, 1]),
            f"concatenate: wanted a list of meshes, at least one; got [{SHOWN}, 1]",
        ),
        (
            lambda mesh: DeviceMesh.concatenate([mesh, mesh["tp"]]),
            f"concatenate on rank 0: {SHOWN}, DeviceMesh('cpu', tp=1): an axis name is used twice; "
            f"flatten(name) gives an axis another one",
        ),
        (
            lambda mesh: DeviceMesh.concatenate([mesh, DeviceMesh("cpu", [0])]),
            f"concatenate on rank 0: {SHOWN}, DeviceMesh('cpu', 0=1): some have names and some have none; "
            f"name all of them or none",
        ),
        (
            lambda mesh: DeviceMesh.concatenate([mesh, DeviceMesh("cuda", [0], ("x",))]),
            f"concatenate on rank 0: {SHOWN}, DeviceMesh('cuda', x=1): they are on different kinds of device",
        ),
    ],
)
def test_what_does_not_fit(call: Callable[[Any], object], expected: str) -> None:
    mesh = DeviceMesh("cpu", [[0]], ("dp", "tp"))
    assert message(lambda: call(mesh)) == expected


def test_names_where_there_are_none() -> None:
    mesh = DeviceMesh("cpu", [[0]])
    assert message(lambda: mesh["tp"]) == "DeviceMesh('cpu', 0=1, 1=1) has no axis 'tp'; its axes are None"
    assert message(lambda: mesh.flatten((0,), "x")) == (
        "flatten DeviceMesh('cpu', 0=1, 1=1): its other axes have no names, so 'x' would be the only one; "
        "give the mesh mesh_dim_names, or leave the name out"
    )
    assert message(lambda: mesh.unflatten(0, (1, 1), ("a", "b"))) == (
        "unflatten axis 0 of DeviceMesh('cpu', 0=1, 1=1): the mesh has no names; leave mesh_dim_names out"
    )


def test_parts_that_do_not_join() -> None:
    def one(rank: int) -> list[str]:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        said = [
            message(lambda: DeviceMesh.concatenate([mesh["tp"], mesh.flatten("all")])),
            message(lambda: DeviceMesh.concatenate([mesh["tp"], mesh["tp"].flatten("again")])),
            message(
                lambda: DeviceMesh.concatenate(
                    [DeviceMesh("cpu", [0], ["x"]), DeviceMesh("cpu", [1, 2], ["y"])]
                )
            ),
            message(lambda: DeviceMesh.concatenate([mesh["tp"], DeviceMesh("cpu", [3 - rank], ["y"])])),
        ]
        return [each.partition(": they ")[2] for each in said]

    overlap = "overlap; each must run along axes of the mesh (2, 2) that the others fix"
    for got in run_threads(one, 4):
        assert got == [
            overlap,
            overlap,
            "are no parts of one mesh; slice all of them from one",
            "have no rank in common; take all of them on this rank, as mesh['tp']",
        ]

"""Errors that depend on values that one rank alone holds: all ranks raise, catch, and go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.collectives import run_threads
from shardwise.dtensor import distribute_tensor, implicit_replication, raise_together
from shardwise.mesh import DeviceMesh
from shardwise.nn import functional as F

ROWS = 8
BAD = np.array([0, 1, 2, 3, 0, 9, 1, 2])  # wrong on the rank with the sixth
GOOD = BAD % 4
SINGULAR = np.stack([np.eye(3)] * 5 + [np.zeros((3, 3))] + [np.eye(3)] * 2)


def cut(values: Any, mesh: DeviceMesh, *placements: str) -> Any:
    return distribute_tensor(sw.tensor(values), mesh, list(placements) or ["S(0)"])


OPS: dict[str, tuple[Callable[[Any, DeviceMesh], Any], Any, Any]] = {
    "embedding": (lambda i, m: F.embedding(i, cut(np.ones((4, 2)), m, "R")), BAD, GOOD),
    "columns in parts": (lambda i, m: F.embedding(i, cut(np.ones((4, 2)), m, "S(1)")), BAD, GOOD),
    "cross_entropy": (lambda i, m: F.cross_entropy(cut(np.ones((ROWS, 4)), m), i), BAD, GOOD),
    "smooth": (
        lambda i, m: F.cross_entropy(cut(np.ones((ROWS, 4)), m), i, label_smoothing=0.1), BAD, GOOD,
    ),
    "nll": (lambda i, m: F.nll_loss(cut(np.ones((ROWS, 4)), m), i), BAD, GOOD),
    "one_hot": (lambda i, m: F.one_hot(i, 4), BAD, GOOD),
    "gather": (lambda i, m: cut(np.ones((ROWS, 4)), m).gather(1, i.reshape(ROWS, 1)), BAD, GOOD),
    "scatter": (lambda i, m: cut(np.ones((ROWS, 4)), m).scatter(1, i.reshape(ROWS, 1), 2.0), BAD, GOOD),
    "index_select": (lambda i, m: cut(np.ones((4, 4)), m, "R").index_select(0, i), BAD, GOOD),
    "inverse": (lambda a, m: sw.linalg.inv(a), SINGULAR, SINGULAR + np.eye(3)),
    "cholesky": (lambda a, m: sw.linalg.cholesky(a), SINGULAR, SINGULAR + np.eye(3)),
}  # fmt: skip


def caught(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("name", OPS)
def test_all_ranks_raise_and_go_on(name: str, world: int) -> None:
    op, bad, good = OPS[name]

    def body(rank: int) -> str:
        mesh = DeviceMesh("cpu", list(range(world)))
        with raise_together():
            said = caught(lambda: op(cut(bad, mesh), mesh))
            assert not caught(lambda: op(cut(good, mesh), mesh))
            again = caught(lambda: op(cut(bad, mesh), mesh))
        assert said == again
        assert cut(GOOD, mesh).sum().item() == GOOD.sum()
        return said

    first, *rest = run_threads(body, world)
    assert all(each == first for each in rest)
    whole = caught(lambda: op(sw.tensor(bad), DeviceMesh("cpu", [0])) if name in ALONE else None)
    if whole:
        assert first.split(": ")[0] == whole.split(": ")[0]
    owner = 5 // -(-ROWS // world) if name != "columns in parts" else 0  # there all hold all of the index
    assert f"rank {owner} at ({owner},): " in first


ALONE = ("one_hot", "inverse", "cholesky")


def test_labels_of_a_batch_in_parts_beside_classes_in_parts() -> None:
    def body(rank: int) -> str:
        mesh = DeviceMesh("cpu", [[0, 1], [2, 3]])
        logits = cut(np.zeros((ROWS, 4)), mesh, "S(0)", "S(1)")
        with raise_together():
            said = caught(lambda: F.cross_entropy(logits, cut(BAD, mesh, "S(0)", "R")))
            loss = F.cross_entropy(logits, cut(GOOD, mesh, "S(0)", "R"))
        assert loss.item() == pytest.approx(np.log(4.0))
        return said

    first, *rest = run_threads(body, 4)
    assert all(each == first for each in rest)
    assert first.startswith("IndexRangeError: rank 2 at (1, 0): cross_entropy: target[1] is 9")


def test_a_fetch_tells_all_ranks_with_what_it_sends_anyway() -> None:
    def body(rank: int) -> str:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        table = cut(np.arange(8.0).reshape(4, 2), mesh)
        said = caught(lambda: table.index_select(0, cut(BAD, mesh)))
        rows = table.index_select(0, cut(GOOD, mesh))
        np.testing.assert_array_equal(rows.numpy(), np.arange(8.0).reshape(4, 2)[GOOD])
        return said

    first, *rest = run_threads(body, 3)
    assert all(each == first for each in rest)
    assert first == (
        "IndexRangeError: rank 1: index_select: index[2] is 9, out of range for dim 0 of size 4; wanted 0 "
        "to 3"
    )


def test_good_values_send_nothing_more_unless_asked_for() -> None:
    def body(rank: int) -> list[int]:
        mesh = DeviceMesh("cpu", [0, 1])
        index, table = cut(GOOD, mesh), cut(np.ones((4, 2)), mesh, "R")
        counts = []
        for asked in (False, True):
            with sw.explain() as seen:
                if asked:
                    with raise_together():
                        F.embedding(index, table)
                else:
                    F.embedding(index, table)
            counts.append(len(seen.records))
        return counts

    assert run_threads(body, 2) == [[0, 1]] * 2


def test_what_all_ranks_hold_needs_no_agreement() -> None:
    def body(rank: int) -> str:
        mesh = DeviceMesh("cpu", [0, 1])
        table = cut(np.ones((4, 2)), mesh)
        with implicit_replication():
            return caught(lambda: F.embedding(sw.tensor(BAD), table))

    first, second = run_threads(body, 2)
    assert first == second
    assert "is 9" in first


@pytest.mark.mpi(min_size=2)
def test_between_processes() -> None:
    mesh = DeviceMesh("cpu", list(range(sw.world_size())))
    for _ in range(3):
        with raise_together(), pytest.raises(IndexError, match=r"rank \d at \(\d,\): .* out of"):
            F.embedding(cut(BAD, mesh), cut(np.ones((4, 2)), mesh, "R"))
        assert cut(GOOD, mesh).sum().item() == GOOD.sum()

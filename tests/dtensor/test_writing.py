"""Writes into views of DTensors: they reach the tensor, or are refused on all ranks; never lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise.backend.errors import DTypeError, LayoutError
from shardwise.collectives import run_threads
from shardwise.dtensor import distribute_tensor, from_local
from shardwise.mesh import DeviceMesh

WHOLE = np.arange(1.0, 11.0).reshape(5, 2)

VIEWS: dict[str, Callable[[Any], list[Any]]] = {
    "row": lambda x: [x[1]],
    "column": lambda x: [x[:, 1]],
    "rows": lambda x: [x[1:4]],
    "every second": lambda x: [x[::2]],
    "rows one by one": lambda x: list(x),
    "unbind": lambda x: list(x.unbind(1)),
    "split": lambda x: list(x.split(2)),
    "chunk": lambda x: list(x.chunk(2, 1)),
    "transposed": lambda x: [x.t()],
    "row of transposed": lambda x: [x.t()[0]],
    "part of a row": lambda x: [x[1][1:]],
    "row, detached": lambda x: [x[1].detach()],
    "unsqueezed": lambda x: [x.unsqueeze(0)],
    "diagonal": lambda x: [x.diagonal()],
    "flat": lambda x: [x.view(10)],
    "real": lambda x: [x.real],
}


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_a_write_into_a_view_is_seen_or_refused(name: str) -> None:
    look = VIEWS[name]
    wanted = sw.tensor(WHOLE.copy())
    for view in look(wanted):
        view.mul_(3)

    def body(rank: int) -> list[str]:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        refusals = []
        for placements in (["R"], ["S(0)"], ["S(1)"], ["P"]):
            if placements == ["P"]:
                x = from_local(WHOLE * (0.5, 0.25, 0.25)[rank], mesh, placements)
            else:
                x = distribute_tensor(sw.tensor(WHOLE.copy()), mesh, placements)
            refusal = ""
            try:
                for view in look(x):
                    view.mul_(3)
            except LayoutError as error:
                refusal = str(error)
            np.testing.assert_array_equal(x.numpy(), WHOLE if refusal else wanted.numpy())
            refusals.append(refusal)
        assert not refusals[0], refusals
        return refusals

    first, *others = run_threads(body, 3)
    assert all(other == first for other in others)


def test_the_refusal_says_what_to_write() -> None:
    def body(rank: int) -> None:
        x = distribute_tensor(sw.tensor(WHOLE.copy()), DeviceMesh("cpu", [0, 1, 2]), ["S(0)"])
        with pytest.raises(LayoutError) as caught:
            x[1] += 1  # calls x[1].__iadd__ before it assigns
        assert str(caught.value) == (
            "cannot write in place (Add) into what Slice gave, of shape (2,): a view would change the other "
            "tensor too, but the values were on other ranks and are copies here. Assign to the other tensor, "
            "as in x[i] = value, or clone() this first"
        )
        x[1] = x[1] + 1
        x[0].clone().add_(5)
        np.testing.assert_array_equal(x.numpy()[:2], [[1, 2], [4, 5]])

    run_threads(body, 3)


def test_an_operand_that_is_none_is_refused_on_ranks_without_elements_too() -> None:
    def body(rank: int) -> str:
        x = distribute_tensor(WHOLE, DeviceMesh("cpu", [0, 1, 2]), ["S(1)"])
        with pytest.raises(DTypeError, match="Mul cannot take inputs of dtypes float64, NoneType") as caught:
            x * None
        return str(caught.value)

    assert len(set(run_threads(body, 3))) == 1

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


WRITES: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: x.add_(1.0),
    "by index": lambda x: x.__setitem__(1, 0.0),
    "a rectangle": lambda x: x.__setitem__((slice(0, 3), slice(None)), 0.0),
    "a mask": lambda x: x.masked_fill_(x > 3.0, 0.0),
    "through a view": lambda x: x[:, 0:1].zero_() if x.layout.order[0] else x[0:2].zero_(),
    "by an optimizer": lambda x: sw.optim.SGD([_with_gradient(x)], lr=0.1).step(),
    "copied into": lambda x: x.copy_(x * 2.0),
}


def _with_gradient(x: Any) -> Any:
    x.requires_grad = True
    x.grad = x.detach().clone()
    return x


@pytest.mark.parametrize("write", sorted(WRITES))
@pytest.mark.parametrize("placement", ["S(0)", "S(1)"])
def test_a_copy_in_place_of_a_view_is_never_silently_old(placement: str, write: str) -> None:
    """A view would have changed with what was written; all ranks hear that the copy has not."""

    def body(rank: int) -> set[str]:
        x = distribute_tensor(sw.tensor(WHOLE.copy()), DeviceMesh("cpu", [0, 1, 2]), [placement])
        copy = x[1] if placement == "S(0)" else x[:, 0]
        others = [copy[0:1], copy.detach(), copy.unsqueeze(0)]
        kept = copy.clone()
        before = kept.tolist()
        assert copy.tolist() == before
        WRITES[write](x)
        said = set()
        for look in (
            lambda: copy.tolist(), lambda: copy + 1.0, lambda: copy.to_local(), lambda: copy.sum().item(),
            *[each.tolist for each in others],
        ):  # fmt: skip
            with pytest.raises(LayoutError, match="Take it again after the write") as raised:
                look()
            said.add(str(raised.value))
        assert kept.tolist() == before
        x.detach()[1 if placement == "S(0)" else 0].tolist()
        assert sw.memory_stats().others
        return said

    first, *rest = run_threads(body, 3)
    assert all(each == first for each in rest)


def test_writes_beside_a_copy_leave_it_good() -> None:
    """Steps in time, each from the ones before: rows that are not written stay what they are."""

    def body(rank: int) -> list[Any]:
        u = distribute_tensor(sw.tensor(np.zeros((9, 3))), DeviceMesh("cpu", [0, 1, 2]), ["S(0)"])
        u[0] = 1.0
        first = u[0]
        for i in range(1, 8):
            u[i] = u[i - 1] + first
        part = u[1]
        u[3:] = 0.0
        u[2, 1:] = 0.0
        assert first.tolist() == [1.0] * 3
        assert part.tolist() == [2.0] * 3
        rows, columns = list(u), u.t().unbind(0)
        u[1, 2] = 5.0
        assert rows[0].tolist() == [1.0] * 3
        assert columns[1].tolist() == [1.0, 2.0, *[0.0] * 7]
        with pytest.raises(LayoutError, match="is old"):
            rows[1].tolist()
        with pytest.raises(LayoutError, match="is old"):
            part.tolist()
        return u.tolist()  # type: ignore[no-any-return]

    wanted = [[1.0] * 3, [2.0, 2.0, 5.0], [3.0, 0.0, 0.0], *[[0.0] * 3] * 6]
    assert run_threads(body, 3) == [wanted] * 3

"""ModuleDict, ParameterList and ParameterDict behave as what they are called after."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.errors import ArgumentError, IndexRangeError, ModuleError


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def test_module_dict() -> None:
    a, b, c = nn.ReLU(), nn.GELU(), nn.Linear(1, 1)
    d = nn.ModuleDict({"a": a, "b": b})
    d["c"] = c
    assert (len(d), list(d), list(d.keys()), list(d.values())) == (
        3,
        ["a", "b", "c"],
        ["a", "b", "c"],
        [a, b, c],
    )
    assert list(d.items()) == [("a", a), ("b", b), ("c", c)]
    assert "b" in d
    assert "x" not in d
    assert d["b"] is d.b is b
    assert list(d.state_dict()) == ["c.weight", "c.bias"]
    d["a"] = b
    assert list(d) == ["a", "b", "c"]  # in its place
    assert d.pop("a") is b
    del d["b"]
    d.update(OrderedDict(e=a))
    d.update([("f", b)])
    assert list(d) == ["c", "e", "f"]
    assert repr(d).splitlines()[0] == "ModuleDict("
    d.clear()
    assert len(d) == 0
    assert message(KeyError, lambda: d["a"]) == "'a'"
    assert message(ModuleError, lambda: nn.ModuleDict({"x": 3})) == (  # type: ignore[dict-item]
        "ModuleDict.x must be a Module or None, not int"
    )
    assert message(ModuleError, lambda: nn.ModuleDict({"keys": a})) == (
        "ModuleDict has an attribute 'keys' already; delete that first, or choose another name"
    )


def test_parameter_list() -> None:
    p = nn.ParameterList([nn.Parameter(sw.ones(2)), sw.zeros(3)])
    assert all(isinstance(x, nn.Parameter) for x in p)
    assert p.append(sw.ones(1)) is p
    p += [sw.ones(4)]
    assert [x.shape for x in p] == [(2,), (3,), (1,), (4,)]
    assert p[-1].shape == (4,)
    assert [x.shape for x in p[1:3]] == [(3,), (1,)]
    assert type(p[1:3]) is nn.ParameterList
    p[0] = sw.ones(5)
    assert list(p.state_dict()) == ["0", "1", "2", "3"]
    assert p.state_dict()["0"].shape == (5,)
    assert len(p) == len(list(p.parameters())) == 4
    assert repr(nn.ParameterList([sw.ones(2)])) == "ParameterList((0): (2,) float32)"
    assert (
        message(IndexRangeError, lambda: p[4]) == "index 4 is out of range for ParameterList of 4 parameters"
    )
    assert message(ModuleError, lambda: p.append(np.ones(2))) == (  # type: ignore[arg-type]
        "ParameterList holds parameters, not ndarray; wrap arrays in Parameter()"
    )


def test_parameter_dict() -> None:
    d = nn.ParameterDict({"a": sw.ones(1), "b": nn.Parameter(sw.ones(2))})
    assert isinstance(d["a"], nn.Parameter)
    assert d["b"] is d.b
    d["c"] = sw.ones(3)
    assert (len(d), list(d), list(reversed(d))) == (3, ["a", "b", "c"], ["c", "b", "a"])
    assert "a" in d
    assert [v.shape for v in d.values()] == [(1,), (2,), (3,)]
    assert [k for k, _ in d.items()] == list(d.keys())
    assert d.get("z") is None
    assert d.get("z", 3) == 3
    assert d.setdefault("a", sw.ones(9)).shape == (1,)
    assert d.setdefault("d", sw.ones(4)).shape == (4,)
    assert d.popitem()[0] == "d"
    assert d.pop("a").shape == (1,)
    other = nn.ParameterDict({"b": sw.ones(7), "e": sw.ones(1)})
    both = d | other
    assert [(k, v.shape) for k, v in both.items()] == [("b", (7,)), ("c", (3,)), ("e", (1,))]
    assert d["b"].shape == (2,)
    d |= other
    assert d["b"].shape == (7,)
    assert d.copy()["b"] is d["b"]
    del d["e"]
    assert list(d.state_dict()) == ["b", "c"]
    d.clear()
    assert not list(d.parameters())
    assert message(KeyError, lambda: d["a"]) == "'a'"


@pytest.mark.parametrize(
    "make", [nn.ModuleList, lambda modules: nn.Sequential(*modules)], ids=["list", "row"]
)
def test_rows_add_up(make: Callable[..., nn.ModuleList]) -> None:
    a, b, c = nn.ReLU(), nn.GELU(), nn.ReLU()
    row = make([a, b])
    longer = row + make([c])
    assert type(longer) is type(row)
    assert list(longer) == [a, b, c]
    assert list(row) == [a, b]
    row += [c]
    assert list(row) == [a, b, c]
    assert [n for n, _ in row.named_children()] == ["0", "1", "2"]
    assert a in row
    assert nn.ReLU() not in row
    assert row.pop() is c
    assert row.pop(0) is a
    assert list(row) == [b]


def test_a_sequential_can_be_repeated() -> None:
    a, b = nn.Linear(2, 2), nn.ReLU()
    row = nn.Sequential(a, b)
    assert list(row * 2) == list(2 * row) == [a, b, a, b]
    assert list(row.state_dict()) == ["0.weight", "0.bias"]
    row *= 3
    assert list(row) == [a, b] * 3
    assert message(ArgumentError, lambda: row * 0) == (
        "Sequential can be repeated a whole number of times from 1 on, not 0"
    )

"""Sequential and ModuleList behave as lists of modules with names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import shardwise as sw
from shardwise import nn
from shardwise.errors import IndexRangeError, ModuleError


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


class Times(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor
        self.weight = nn.Parameter(sw.ones(1))

    def forward(self, x: sw.Tensor) -> sw.Tensor:
        return x * self.factor + self.weight


KINDS = [nn.ModuleList, lambda modules: nn.Sequential(*modules)]


def names(module: nn.Module) -> list[str]:
    return [name for name, _ in module.named_modules(remove_duplicate=False) if name]


@pytest.mark.parametrize("make", KINDS, ids=["list", "sequential"])
def test_as_a_list(make: Callable[..., nn.ModuleList]) -> None:
    a, b, c, d = modules = [Times(i) for i in range(4)]
    row = make(modules)
    assert len(row) == 4
    assert list(row) == modules
    assert [row[0], row[-1], row[3], row[-4]] == [a, d, d, a]
    assert names(row) == ["0", "1", "2", "3"]
    part = row[1:3]
    assert type(part) is type(row)
    assert list(part) == [b, c]
    assert list(row[::-2]) == [d, b]
    e = Times(9)
    assert row.append(e) is row
    assert row.extend([a]) is row
    assert list(row) == [a, b, c, d, e, a]
    row[-1] = b
    assert list(row) == [a, b, c, d, e, b]
    del row[0]
    assert list(row) == [b, c, d, e, b]
    assert names(row) == ["0", "1", "2", "3", "4"]
    del row[1:3]
    assert list(row) == [b, e, b]
    row.insert(1, c).insert(-1, d)
    assert list(row) == [b, c, e, d, b]
    assert names(row) == ["0", "1", "2", "3", "4"]
    assert [n for n, _ in row.named_parameters()] == ["0.weight", "1.weight", "2.weight", "3.weight"]


@pytest.mark.parametrize("make", KINDS, ids=["list", "sequential"])
def test_refused(make: Callable[..., nn.ModuleList]) -> None:
    row = make([Times(1)])
    kind = type(row).__name__
    for i in (1, -2):
        assert message(IndexRangeError, lambda i=i: row[i]) == (
            f"index {i} is out of range for {kind} of 1 modules"
        )
    assert message(IndexRangeError, lambda: row.__setitem__(1, Times(2))) == (
        f"index 1 is out of range for {kind} of 1 modules"
    )
    assert (
        message(ModuleError, lambda: row.append(3))
        == f"{kind} holds modules, not int; give an instance of nn.Module"
    )
    assert (
        message(ModuleError, lambda: row.__setitem__(0, None))
        == f"{kind} holds modules, not NoneType; give an instance of nn.Module"
    )


def test_sequential_calls_in_order() -> None:
    net = nn.Sequential(Times(2.0), Times(3.0), nn.Sequential())
    assert net(sw.ones(1)).tolist() == [10.0]  # (1 * 2 + 1) * 3 + 1
    assert net[:1](sw.ones(1)).tolist() == [3.0]


def test_sequential_with_names() -> None:
    first, second = Times(1), Times(2)
    net = nn.Sequential({"first": first, "second": second})
    assert names(net) == ["first", "second"]
    assert net.first is first
    assert net[-1] is second
    assert names(net[1:]) == ["second"]
    assert list(net.state_dict()) == ["first.weight", "second.weight"]
    assert message(ModuleError, lambda: nn.Sequential(first, [second])) == (  # type: ignore[arg-type]
        "Sequential takes modules, or one mapping of names to modules; argument 1 is a list"
    )


def test_slices_count_from_zero_in_lists_and_keep_names_in_sequentials() -> None:
    modules = [Times(i) for i in range(3)]
    assert names(nn.ModuleList(modules)[1:]) == ["0", "1"]
    assert names(nn.Sequential(*modules)[1:]) == ["1", "2"]


def test_a_module_with_two_places_is_called_twice_and_is_one_child() -> None:
    times = Times(2.0)
    net = nn.Sequential(times, times)
    assert len(net) == 2
    assert list(net) == [times, times]
    assert net(sw.ones(1)).tolist() == [7.0]  # (1 * 2 + 1) * 2 + 1
    assert [name for name, _ in net.named_children()] == ["0"]
    assert repr(net).count("Times") == 2


def test_nested_names() -> None:
    net = nn.ModuleList([nn.Sequential(Times(1)), nn.ModuleList([Times(2)])])
    assert list(net.state_dict()) == ["0.0.weight", "1.0.weight"]


def test_a_module_list_cannot_be_called() -> None:
    assert message(NotImplementedError, lambda: nn.ModuleList()(1)) == "ModuleList does not define forward()"

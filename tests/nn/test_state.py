"""state_dict and load_state_dict, there and back, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.errors import ModuleError


class Net(nn.Module):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        sw.manual_seed(seed)
        self.table = nn.Embedding(4, 3)
        self.head = nn.Linear(3, 4)
        self.head.weight = self.table.weight
        self.register_buffer("count", sw.tensor([seed]))
        self.register_buffer("cache", sw.zeros(1), persistent=False)


NAMES = ["count", "table.weight", "head.weight", "head.bias"]


def message(call: Callable[[], object]) -> str:
    with pytest.raises(ModuleError) as error:
        call()
    return str(error.value)


def arrays(net: nn.Module) -> dict[str, np.ndarray]:
    return {name: t.numpy().copy() for name, t in net.state_dict().items()}


def test_the_state_lists_all_names_over_the_module_s_memory() -> None:
    net = Net()
    state = net.state_dict()
    assert list(state) == NAMES  # both names of the tied weight, and not what is not persistent
    assert np.shares_memory(state["head.bias"].data, net.head.bias.data)
    assert not any(t.requires_grad for t in state.values())
    for prefix in ("net", "net."):
        assert list(net.state_dict(prefix)) == [f"net.{name}" for name in NAMES]


@pytest.mark.parametrize("form", [dict, arrays], ids=["tensors", "arrays"])
def test_loading_copies_values_into_place(form: Callable[[Any], Any]) -> None:
    source, net = Net(1), Net(2)
    places = [t.data for t in net.state_dict().values()]
    state = arrays(source) if form is arrays else source.state_dict()
    assert net.load_state_dict(state) == ([], [])
    for name, array in arrays(source).items():
        np.testing.assert_array_equal(arrays(net)[name], array)
    assert all(np.shares_memory(a, t.data) for a, t in zip(places, net.state_dict().values(), strict=True))
    assert net.head.weight is net.table.weight
    with sw.no_grad():
        source.head.bias.fill_(9.0)
    assert net.head.bias.data.max() < 9.0


def test_values_are_cast_to_what_the_module_has() -> None:
    net = Net().double()
    values = {name: array.astype(np.float32) for name, array in arrays(Net(3)).items()}
    net.load_state_dict(values)
    assert net.head.bias.dtype == np.float64
    np.testing.assert_array_equal(net.head.bias.data, values["head.bias"])
    assert net.count.dtype == np.int64
    assert net.count.tolist() == [3]


def test_only_mappings_are_loaded() -> None:
    assert message(lambda: Net().load_state_dict([1])) == (  # type: ignore[arg-type]
        "load_state_dict takes a mapping of names to tensors, not a list"
    )


def test_what_loading_returns_says_so_if_all_fits() -> None:
    net = Net()
    assert repr(net.load_state_dict(net.state_dict())) == "<All keys matched successfully>"
    wrong = net.load_state_dict({"x": sw.ones(1)}, strict=False)
    assert repr(wrong).startswith("IncompatibleKeys(missing_keys=[")
    assert repr(wrong).endswith("unexpected_keys=['x'])")


def test_its_own_state_can_be_loaded() -> None:
    net = Net()
    before = arrays(net)
    net.load_state_dict(net.state_dict())
    for name, array in arrays(net).items():
        np.testing.assert_array_equal(array, before[name])


def test_names_that_do_not_fit() -> None:
    net, before = Net(), arrays(Net())
    state = arrays(Net(1))
    del state["head.bias"], state["count"]
    state["extra"] = state["more.x"] = np.zeros(1)
    assert message(lambda: net.load_state_dict(state)) == (
        "the state does not fit Net: missing: count, head.bias; unexpected: extra, more.x "
        "(strict=False ignores names that one side has alone)"
    )
    with pytest.raises(RuntimeError):  # as in scripts for PyTorch
        net.load_state_dict(state)
    for name, array in arrays(net).items():
        np.testing.assert_array_equal(array, before[name])  # nothing was loaded
    assert net.load_state_dict(state, strict=False) == (["count", "head.bias"], ["extra", "more.x"])
    np.testing.assert_array_equal(net.table.weight.data, state["table.weight"])
    np.testing.assert_array_equal(net.head.bias.data, before["head.bias"])


def test_shapes_and_kinds_that_do_not_fit() -> None:
    net, before = Net(), arrays(Net())
    state: dict[str, Any] = arrays(Net(1))
    state["head.bias"], state["count"] = np.zeros((4, 1)), [1]
    assert message(lambda: net.load_state_dict(state, strict=False)) == (
        "the state does not fit Net: count is a list, not a tensor or an array; "
        "head.bias has shape (4,), but (4, 1) was given"
    )
    for name, array in arrays(net).items():
        np.testing.assert_array_equal(array, before[name])


def test_loading_between_forward_and_backward_is_caught() -> None:
    linear = nn.Linear(2, 2)
    x = sw.ones(1, 2, requires_grad=True)
    loss = linear(x).sum()
    linear.load_state_dict(linear.state_dict())
    with pytest.raises(sw.errors.AutogradError, match=r"input 1 of Linear, .* was written in place"):
        loss.backward()


def test_results_have_names() -> None:
    keys = Net().load_state_dict({}, strict=False)
    assert keys.missing_keys == NAMES
    assert keys.unexpected_keys == []


def test_the_state_itself() -> None:
    net = Net()
    state = net.state_dict(keep_vars=True)
    assert state["table.weight"] is state["head.weight"] is net.table.weight
    assert state["count"] is net.count
    more: dict[str, sw.Tensor] = {"there": sw.ones(1)}
    assert net.state_dict("net.", destination=more) is more
    assert list(more) == ["there", *(f"net.{name}" for name in NAMES)]


def test_assigning_takes_over_memory_and_dtype() -> None:
    net = Net()
    net.head.bias.requires_grad_(False)
    state: dict[str, Any] = {name: array.astype(np.float16) for name, array in arrays(Net(1)).items()}
    state["head.weight"] = state["table.weight"]
    assert net.load_state_dict(state, assign=True) == ([], [])
    assert net.head.weight is net.table.weight  # the tie is kept
    assert isinstance(net.head.weight, nn.Parameter)
    assert net.head.weight.dtype == np.float16
    assert np.shares_memory(net.head.bias.data, state["head.bias"])
    assert (net.head.bias.requires_grad, net.head.weight.requires_grad) == (False, True)
    given = nn.Parameter(sw.ones(4))
    net.load_state_dict({"head.bias": given}, strict=False, assign=True)
    assert net.head.bias is given


def test_assigning_fills_a_module_without_data() -> None:
    net = nn.Linear(3, 4, device="shape")
    values = {"weight": np.ones((4, 3), np.float32), "bias": np.zeros(4, np.float32)}
    net.load_state_dict(values, assign=True)
    assert net(sw.ones(1, 3)).tolist() == [[3.0] * 4]


def test_a_deleted_buffer_is_gone() -> None:
    net = Net()
    del net.count
    assert list(net.state_dict()) == NAMES[1:]
    net.register_buffer("count", sw.tensor([1]), persistent=False)
    assert list(net.state_dict()) == NAMES[1:]

"""Module: the tree of parts, hooks, modes, copies, repr."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.errors import DTypeError, ModuleError


def message(kind: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


class Leaf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(sw.ones(2))
        self.register_buffer("mean", sw.zeros(2))
        self.register_buffer("cache", sw.zeros(1), persistent=False)
        self.register_parameter("bias", param=None)

    def forward(self, x: sw.Tensor) -> sw.Tensor:
        return x * self.weight


class Tree(nn.Module):
    """Two names for one leaf, and two names for one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Parameter(sw.zeros(3))
        self.a = Leaf()
        self.b = nn.Sequential(Leaf(), nn.ReLU())
        self.again = self.a
        self.tied = self.b[0].weight

    def forward(self, x: sw.Tensor) -> sw.Tensor:
        return self.b(self.a(x))


def test_parts_are_found_by_assignment_and_named_once() -> None:
    tree = Tree()
    assert [n for n, _ in tree.named_parameters()] == ["own", "tied", "a.weight"]
    assert [n for n, _ in tree.named_parameters(remove_duplicate=False)] == [
        "own", "tied", "a.weight", "b.0.weight", "again.weight",
    ]  # fmt: skip
    assert [n for n, _ in tree.named_parameters(prefix="p", recurse=False)] == ["p.own", "p.tied"]
    assert [n for n, _ in tree.named_buffers()] == ["a.mean", "a.cache", "b.0.mean", "b.0.cache"]
    assert [n for n, _ in tree.named_modules()] == ["", "a", "b", "b.0", "b.1"]
    assert [n for n, _ in tree.named_modules(prefix="t")] == ["t", "t.a", "t.b", "t.b.0", "t.b.1"]
    assert [n for n, _ in tree.named_children()] == ["a", "b"]
    assert list(tree.modules()) == [tree, tree.a, tree.b, tree.b[0], tree.b[1]]
    assert list(tree.children()) == [tree.a, tree.b]
    assert len(list(tree.parameters())) == 3
    assert len(list(tree.buffers())) == 4
    assert tree.a.bias is None
    assert {"own", "a", "b"} <= set(dir(tree))
    assert {"weight", "mean"} <= set(dir(tree.a))


def test_iterators_with_duplicates_and_prefixes() -> None:
    tree = Tree()
    assert [n for n, _ in tree.named_buffers(prefix="p", remove_duplicate=False)] == [
        "p.a.mean", "p.a.cache", "p.b.0.mean", "p.b.0.cache", "p.again.mean", "p.again.cache",
    ]  # fmt: skip
    assert [n for n, _ in tree.a.named_buffers(recurse=False)] == ["mean", "cache"]
    assert [n for n, _ in tree.named_modules(remove_duplicate=False)] == ["", "a", "b", "b.0", "b.1", "again"]
    seen = {tree.b}
    assert [n for n, _ in tree.named_modules(seen)] == ["", "a", "b.0", "b.1"]
    assert tree.a in seen


def test_submodules_and_buffers_by_path() -> None:
    tree = Tree()
    assert tree.get_buffer("b.0.mean") is tree.b[0].mean
    assert message(ModuleError, lambda: tree.get_buffer("b.0.weight")) == "Tree has no buffer 'b.0.weight'"
    other = nn.ReLU()
    tree.set_submodule("b.0", other)
    assert tree.b[0] is other
    assert message(ModuleError, lambda: tree.set_submodule("b.5", other, strict=True)) == (
        "Tree has no submodule 'b.5' to replace; strict=False adds one"
    )
    tree.set_submodule("b.5", other)
    assert tree.get_submodule("b.5") is other
    assert list(tree.modules()).count(other) == 1
    assert list(tree.modules(remove_duplicate=False)).count(other) == 2
    tree.register_module("more", other)
    assert tree.more is other


def test_paths_lead_to_parts() -> None:
    tree = Tree()
    assert tree.get_submodule("") is tree
    assert tree.get_submodule("b.0") is tree.b[0]
    assert tree.get_parameter("b.0.weight") is tree.tied
    assert message(ModuleError, lambda: tree.get_submodule("b.7.x")) == (
        "Tree has no submodule 'b.7.x' (stopped at '7')"
    )
    assert message(ModuleError, lambda: tree.get_parameter("a.bias")) == "Tree has no parameter 'a.bias'"


def test_two_modules_may_share_their_parts() -> None:
    inner = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    outer = nn.Module()
    outer.share_parts(inner)
    assert list(outer.state_dict()) == list(inner.state_dict())
    inner.add_module("2", nn.Linear(3, 1))
    assert outer.get_parameter("2.bias") is inner.get_parameter("2.bias")
    assert outer.module_paths()[id(inner[0])] == "0"


def test_assignment_moves_a_name_between_the_tables() -> None:
    leaf = Leaf()
    leaf.weight = None
    assert [n for n, _ in leaf.named_parameters()] == []
    leaf.weight = nn.Parameter(sw.ones(1))
    assert [n for n, _ in leaf.named_parameters()] == ["weight"]
    leaf.mean = sw.ones(2)
    assert leaf.mean.tolist() == [1.0, 1.0]
    assert dict(leaf.named_buffers())["mean"] is leaf.mean
    leaf.note = 3
    leaf.note = nn.Parameter(sw.ones(1))  # from a plain attribute to a parameter
    assert "note" not in vars(leaf)
    assert dict(leaf.named_parameters())["note"] is leaf.note
    leaf.note = nn.ReLU()  # and on to a submodule
    assert "note" not in dict(leaf.named_parameters())
    assert dict(leaf.named_children())["note"] is leaf.note
    del leaf.note, leaf.mean
    assert not hasattr(leaf, "note")
    assert not hasattr(leaf, "mean")
    assert message(AttributeError, lambda: leaf.note) == "Leaf has no attribute 'note'"
    with pytest.raises(AttributeError):
        del leaf.note


def test_assignments_that_are_refused() -> None:
    tree = Tree()
    leaf = tree.a
    assert message(ModuleError, lambda: setattr(leaf, "weight", sw.ones(2))) == (
        "cannot assign Tensor to parameter 'weight'; wrap it in Parameter()"
    )
    assert message(ModuleError, lambda: setattr(leaf, "mean", 3)) == (
        "cannot assign int to buffer 'mean'; make it a Tensor"
    )
    assert message(ModuleError, lambda: setattr(tree, "a", 3)) == (
        "cannot assign int to submodule 'a'; assign a Module or None"
    )
    leaf.plain = None
    taken = "Leaf has an attribute '{}' already; delete that first, or choose another name"
    tensor, parameter = sw.ones(1), nn.Parameter(sw.ones(1))
    assert message(ModuleError, lambda: leaf.register_buffer("plain", tensor)) == taken.format("plain")
    assert message(ModuleError, lambda: leaf.register_parameter("mean", parameter)) == taken.format("mean")
    assert message(ModuleError, lambda: leaf.add_module("forward", tree)) == taken.format("forward")
    assert message(ModuleError, lambda: leaf.register_buffer("x", 3)) == (  # type: ignore[arg-type]
        "Leaf.x must be a Tensor or None, not int"
    )
    assert message(ModuleError, lambda: leaf.register_parameter("x", tensor)) == (  # type: ignore[arg-type]
        "Leaf.x must be a Parameter or None, not Tensor"
    )
    assert message(ModuleError, lambda: leaf.add_module("x", tensor)) == (  # type: ignore[arg-type]
        "Leaf.x must be a Module or None, not Tensor"
    )
    for name in ("", "a.b"):
        assert message(ModuleError, lambda n=name: leaf.register_buffer(n, tensor)) == (
            f"{name!r} cannot name a part of Leaf: it must be non-empty and have no dot"
        )
    leaf.register_buffer("mean", tensor)  # in its own table a name may be registered anew
    assert leaf.mean is tensor


def test_a_forgotten_super_init_is_named() -> None:
    class Assigns(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.ReLU()

    class Registers(nn.Module):
        def __init__(self) -> None:
            self.register_buffer("x", sw.ones(1))

    class Nothing(nn.Module):
        def __init__(self) -> None:
            pass

        def forward(self, x: sw.Tensor) -> sw.Tensor:
            return x

    assert message(ModuleError, Assigns) == (
        "Assigns.__init__ must call super().__init__() before it sets 'layer'"
    )
    assert message(ModuleError, Registers) == (
        "Registers.__init__ must call super().__init__() before it registers 'x'"
    )
    assert message(AttributeError, lambda: Nothing()(sw.ones(1))) == (
        "Nothing has no attribute '_forward_pre_hooks', because its __init__ did not call super().__init__()"
    )


def test_forward_must_be_defined() -> None:
    assert message(NotImplementedError, lambda: nn.Module()(1)) == "Module does not define forward()"


def test_hooks_see_and_replace() -> None:
    leaf = Leaf()
    seen: list[Any] = []
    x = sw.ones(2)
    first = leaf.register_forward_pre_hook(lambda m, args: seen.append((m, args)))
    second = leaf.register_forward_pre_hook(lambda m, args: (args[0] * 2.0,))
    third = leaf.register_forward_pre_hook(lambda m, args: args[0] * 3.0)  # need not be a tuple
    after = leaf.register_forward_hook(lambda m, args, out: seen.append((args, out)))
    last = leaf.register_forward_hook(lambda m, args, out: out + 1.0)
    assert leaf(x).tolist() == [7.0, 7.0]
    assert seen[0] == (leaf, (x,))
    assert seen[1][0][0].tolist() == seen[1][1].tolist() == [6.0, 6.0]
    for handle in (second, third, last):
        handle.remove()
        handle.remove()  # a second time does nothing
    assert leaf(x).tolist() == [1.0, 1.0]
    with first, after:
        pass  # leaving the block removes them
    seen.clear()
    leaf(x)
    assert seen == []


def test_a_hook_may_remove_itself() -> None:
    leaf, calls = Leaf(), []

    def once(module: nn.Module, args: Any, out: Any) -> None:
        calls.append("once")
        handle.remove()

    handle = leaf.register_forward_hook(once)
    leaf.register_forward_hook(lambda *_: calls.append("always"))
    leaf(sw.ones(2))
    leaf(sw.ones(2))
    assert calls == ["once", "always", "always"]


def test_modes_reach_the_whole_tree() -> None:
    tree = Tree()
    assert tree.training
    assert tree.eval() is tree
    assert not any(m.training for m in tree.modules())
    tree.b.train()
    assert [m.training for m in tree.modules()] == [False, False, True, True, True]
    assert all(m.training for m in tree.train(True).modules())


def test_apply_goes_children_first() -> None:
    tree = Tree()
    seen: list[nn.Module] = []
    assert tree.apply(seen.append) is tree
    assert seen == [tree.a, tree.b[0], tree.b[1], tree.b, tree]


def test_requires_grad_and_zero_grad() -> None:
    tree = Tree()
    assert tree.requires_grad_(False) is tree
    assert not any(p.requires_grad for p in tree.parameters())
    tree.requires_grad_()
    tree(sw.ones(2)).sum().backward()
    grad = tree.a.weight.grad
    tree.zero_grad(set_to_none=False)
    assert tree.a.weight.grad is grad
    assert grad.tolist() == [0.0, 0.0]
    assert tree.own.grad is None
    tree.zero_grad()
    assert tree.a.weight.grad is None


def test_casting() -> None:
    tree = Tree()
    tree.a.register_buffer("count", sw.tensor([1]))
    tree(sw.ones(2)).sum().backward()
    weight = tree.a.weight
    assert tree.double() is tree
    assert tree.a.weight is weight  # the same object, so that optimizers keep it
    assert {t.dtype for t in (*tree.parameters(), tree.a.mean)} == {np.dtype(np.float64)}
    assert weight.grad.dtype == np.float64
    assert tree.a.count.dtype == np.int64  # integers stay
    assert tree.to("cpu", "float16").own.dtype == np.float16
    assert tree.float().own.dtype == np.float32
    for wrong in (np.int64, "int8", "floaty", "mps:0", 3):
        assert message(DTypeError, lambda w=wrong: tree.to(w)) == (
            f"Module.to takes devices and floating or complex dtypes, not {wrong!r}"
        )
    assert tree.own.dtype == np.float32


def test_targets_by_keyword_and_by_tensor() -> None:
    tree = Tree()
    assert tree.to(device="cpu", dtype=np.float64, non_blocking=True).own.dtype == np.float64
    assert tree.to(sw.ones(1, dtype=np.float16)).own.dtype == np.float16
    assert tree.to("float32").own.dtype == np.float32
    assert tree.half().own.dtype == np.float16
    assert tree.bfloat16().own.dtype.name == "bfloat16"
    assert tree.cpu().own.device == "cpu"
    assert tree.type(np.float64).own.dtype == np.float64
    assert message(DTypeError, lambda: tree.type(np.int64)) == (
        "Module.type: parameters that require grad cannot be <class 'numpy.int64'>; call "
        "requires_grad_(False) first"
    )
    frozen = Tree().requires_grad_(False).type(np.int64)
    assert frozen.own.dtype == frozen.a.mean.dtype == np.int64


def test_complex_parameters_keep_their_imaginary_part() -> None:
    module = nn.ParameterList([sw.tensor([1.0 + 2.0j]), sw.ones(1)])
    module.double()
    assert (module[0].dtype, module[1].dtype) == (np.complex64, np.float64)
    module.to(np.complex128)
    assert module[0].tolist() == [1.0 + 2.0j]
    assert module[0].dtype == np.complex128


def test_without_data_and_back() -> None:
    linear = nn.Linear(2, 3, device="shape")
    assert linear.weight.device == "shape"
    weight = linear.weight
    linear.to_empty(device="cpu")
    assert linear.weight is weight
    assert (weight.device, weight.shape) == ("cpu", (3, 2))


def test_copies_are_apart_and_keep_ties() -> None:
    tree = Tree()
    tree(sw.ones(2)).sum().backward()
    for twin in (copy.deepcopy(tree), pickle.loads(pickle.dumps(tree))):
        assert twin.again is twin.a
        assert twin.tied is twin.b[0].weight
        assert type(twin.tied) is nn.Parameter
        assert twin.tied.requires_grad
        assert list(twin.state_dict()) == list(tree.state_dict())
        with sw.no_grad():
            twin.own.fill_(5.0)
            twin.a.mean.fill_(5.0)
        assert tree.own.tolist() == [0.0] * 3
        assert tree.a.mean.tolist() == [0.0] * 2
        twin(sw.ones(2)).sum().backward()


def test_repr_is_pytorch_s() -> None:
    class Shown(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(2, 3), nn.GELU())
            self.rows = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1), nn.ReLU()])
            self.pad = nn.ModuleList()

        def extra_repr(self) -> str:
            return "size=2"

    assert repr(Shown()) == (
        "Shown(\n"
        "  size=2\n"
        "  (inner): Sequential(\n"
        "    (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "    (1): GELU(approximate='none')\n"
        "  )\n"
        "  (rows): ModuleList(\n"
        "    (0-1): 2 x Linear(in_features=1, out_features=1, bias=True)\n"
        "    (2): ReLU()\n"
        "  )\n"
        "  (pad): ModuleList()\n"
        ")"
    )
    assert repr(nn.LayerNorm((2, 3))) == "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=True)"
    assert repr(nn.Embedding(3, 2)) == "Embedding(3, 2)"
    assert repr(nn.Dropout(0.1)) == "Dropout(p=0.1, inplace=False)"
    assert repr(nn.Parameter(sw.ones(1))) == "Parameter(tensor([1.], requires_grad=True))"


def test_a_parameter_learns_numbers_only() -> None:
    assert message(DTypeError, lambda: nn.Parameter(sw.tensor([1]))) == (
        "only floating-point and complex tensors can require grad, not int64; cast with astype() first"
    )
    assert not nn.Parameter(sw.tensor([1]), requires_grad=False).requires_grad
    source = sw.ones(2)
    parameter = nn.Parameter(source)
    assert np.shares_memory(parameter.data, source.data)
    assert nn.Parameter(parameter * 2.0).is_leaf


def test_buffers_by_assignment() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen = nn.Buffer(sw.tensor([0]))
            self.cache = nn.Buffer(sw.zeros(2), persistent=False)

    module = Counts()
    assert [n for n, _ in module.named_buffers()] == ["seen", "cache"]
    assert list(module.state_dict()) == ["seen"]
    module.seen = module.seen + 1
    assert module.state_dict()["seen"].tolist() == [1]
    twin = copy.deepcopy(module)
    assert list(twin.state_dict()) == ["seen"]
    again = pickle.loads(pickle.dumps(twin.cache))
    assert (type(again), again.persistent) == (nn.Buffer, False)

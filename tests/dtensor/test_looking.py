"""Values of DTensors, looked at in every way that Python and NumPy have: always those of the whole."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn
from shardwise.backend.errors import AnomalyError, DTypeError, LayoutError
from shardwise.collectives import run_threads
from shardwise.dtensor import DTensor, check_replicas, distribute_tensor, from_local, implicit_replication
from shardwise.mesh import DeviceMesh

WHOLE = np.arange(1.0, 11.0).reshape(5, 2)
LAYOUTS = (["R"], ["S(0)"], ["S(1)"], ["P"])

LOOKS: dict[str, Callable[[Any], Any]] = {
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "array": lambda x: np.asarray(x),
    "array of a dtype": lambda x: np.array(x, dtype=np.float32),
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x[0, 1]),
    "int": lambda x: int(x.max()),
    "index": lambda x: [10, 20, 30][x.argmin()],
    "bool": lambda x: bool((x > 0).all()),
    "len": lambda x: len(x),
    "rows": lambda x: [row.tolist() for row in x],
    "rows of rows": lambda x: [[float(v) for v in row] for row in x],
    "unpacked": lambda x: [v.item() for v in x.sum(1).unbind()],
    "in": lambda x: (3.0 in x, 33.0 in x),
    "equal": lambda x: (x == x.clone()).all().item(),
    "less": lambda x: (x < 4).tolist(),
    "format": lambda x: f"{x.mean():.3f}",
    "str": lambda x: str(x).split("[[")[1].split("]]")[0].replace("\n", "").split(),
    "np.sum": lambda x: np.sum(x, axis=0),
    "np.add": lambda x: np.add(x, x),
    "np.concatenate": lambda x: np.concatenate([x, x], axis=1),
    "np.mean": lambda x: np.mean(x),
    "np.exp": lambda x: np.exp(x),
    "np.stack": lambda x: np.stack([x, x + 1]),
    "np.where": lambda x: np.where(x > 3, x, 0.0),
    "np.max": lambda x: np.max(x, axis=1),
    "np.linalg.norm": lambda x: np.linalg.norm(x),
    "np.allclose": lambda x: np.allclose(x, x + 1e-12),
    "round": lambda x: round(x / 3, 1),
    "copy": lambda x: copy.copy(x),
    "deepcopy": lambda x: copy.deepcopy(x),
    "sorted": lambda x: sorted(x.flatten().tolist(), reverse=True),
    "dlpack": lambda x: np.from_dlpack(x),
    "stride": lambda x: (x.stride(), x[0].stride(), x.sum().stride()),
    "copy_ of few": lambda x: x.clone().copy_(x[0].detach()),
    "fill_": lambda x: x.clone().fill_(x.sum()),
    "fewer": lambda x: x[0].clone().mul_(x.mean()),
    "take": lambda x: (np.take(x[:, 0], x.argmin()), np.interp(2.5, x[:, 0], x[:, 1])),
    "nothing": lambda x: ((x == None).tolist(), (x != None).tolist()),  # noqa: E711
    "number operands": lambda x: (2.0 - x) / np.float64(4.0) + np.array(1.0) + sw.tensor(2.0),
}


def plain(value: Any) -> Any:
    if isinstance(value, DTensor):
        return value.full_tensor().numpy()
    if isinstance(value, sw.Tensor):
        return value.numpy()
    return value


@pytest.mark.parametrize("name", sorted(LOOKS))
def test_a_look_shows_the_whole(name: str) -> None:
    look = LOOKS[name]
    wanted = plain(look(sw.tensor(WHOLE)))

    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1, 2])
        for placements in LAYOUTS:
            if placements == ["P"]:
                x = from_local(WHOLE * (0.5, 0.25, 0.25)[rank], mesh, placements)
            else:
                x = distribute_tensor(WHOLE, mesh, placements)
            got = plain(look(x))
            if isinstance(wanted, (np.ndarray, float)):
                np.testing.assert_allclose(got, wanted, rtol=1e-12, err_msg=str(placements))
            else:
                assert got == wanted, placements

    run_threads(body, 3)


def test_str_shows_the_whole_and_repr_what_a_rank_has() -> None:
    def body(rank: int) -> list[str]:
        mesh = DeviceMesh("cpu", [0, 1])
        x = distribute_tensor(np.arange(3), mesh, ["S(0)"])
        y = from_local(sw.ones(1, requires_grad=True), mesh, ["P"]) * 2
        w = nn.Parameter(distribute_tensor(sw.ones(3), mesh, ["S(0)"]))
        return [str(x), repr(x), f"{y}", repr(y), str(w), repr(w), repr(x.sum().redistribute())]

    assert run_threads(body, 2)[1] == [
        "DTensor([0, 1, 2], DeviceMesh('cpu', 0=2), [S(0)])",
        "DTensor(local=[2], shape=(3,), DeviceMesh('cpu', 0=2), [S(0)])",
        "DTensor([4.], DeviceMesh('cpu', 0=2), [P], grad_fn=Mul)",
        "DTensor(local=[2.], shape=(1,), DeviceMesh('cpu', 0=2), [P], grad_fn=Mul)",
        "Parameter(DTensor([1., 1., 1.], DeviceMesh('cpu', 0=2), [S(0)], requires_grad=True))",
        "Parameter(DTensor(local=[1.], shape=(3,), DeviceMesh('cpu', 0=2), [S(0)], requires_grad=True))",
        "DTensor(3, DeviceMesh('cpu', 0=2), [R])",
    ]


def test_repr_sends_nothing_and_waits_for_nothing() -> None:
    """So a debugger, a traceback or a log line of one rank ends, whatever the others do."""

    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1])
        x = distribute_tensor(np.arange(40.0).reshape(8, 5), mesh, ["S(0)"])
        later = x.redistribute(["S(1)"], async_op=True)
        with sw.explain() as seen:
            if rank == 1:
                told = [
                    repr([x]),
                    repr({"x": x, "sum": x.sum()}),
                    repr(x.data),
                    repr(later),
                    repr(later.data),
                ]
                assert all("local" in each for each in told[:3])
                assert all("on its way" in each for each in told[3:])
        assert not seen.records
        assert later.tolist() == x.tolist()

    run_threads(body, 2)


COMPOSED: dict[str, Callable[[Any], Any]] = {
    "gradient": lambda x: np.gradient(x),
    "gradient of one axis": lambda x: np.gradient(x, 2.0, axis=0, edge_order=2),
    "vander": lambda x: np.vander(x[:, 0], 3),
    "ediff1d": lambda x: np.ediff1d(x, to_begin=[7.0, 8.0]),
    "union1d": lambda x: np.union1d(x, [3.5, 4.0]),
    "setdiff1d": lambda x: np.setdiff1d(x, [3.0, 4.0]),
    "outer": lambda x: np.outer(x[0], [1.0, 2.0]),
    "tril of a vector": lambda x: np.tril(x[:, 0]),
    "take": lambda x: np.take(x, [0, 3], axis=0),
    "combinations": lambda x: sw.combinations(x[:, 1]),
    "a tensor of elements": lambda x: sw.tensor([x[0, 0], x[2, 1], 4.0]),
    "a tensor of rows": lambda x: sw.tensor([x[0], [x[1, 0], x[1, 1]]]),
    "a tensor of a tensor": lambda x: sw.tensor(x),
    "memory": lambda x: (np.shares_memory(x[:, :1], x[:, :1]), np.may_share_memory(x, x.clone())),
}


@pytest.mark.parametrize("name", sorted(COMPOSED))
def test_what_is_made_of_others_needs_no_constants_of_its_user(name: str) -> None:
    wanted = COMPOSED[name](sw.tensor(WHOLE))

    def body(rank: int) -> None:
        for placement in ("R", "S(0)", "S(1)")[: 2 if name == "memory" else 3]:
            got = COMPOSED[name](distribute_tensor(WHOLE, DeviceMesh("cpu", [0, 1, 2]), [placement]))
            many = isinstance(wanted, (list, tuple))
            for each, value in zip(*((got, wanted) if many else ([got], [wanted])), strict=True):
                np.testing.assert_allclose(plain(each), plain(value), err_msg=placement)

    run_threads(body, 3)


def test_arrays_of_the_user_are_asked_about_in_composed_functions() -> None:
    def body(rank: int) -> None:
        x = distribute_tensor(WHOLE, DeviceMesh("cpu", [0, 1]), ["S(0)"])
        with pytest.raises(LayoutError, match="is a array of shape"):
            np.gradient(x, np.array([0.0, 1.0, 3.0, 4.0, 5.0]), axis=0)
        with pytest.raises(DTypeError, match="piecewise does not take tensors: give it"):
            np.piecewise(x, [x < 3], [1.0])

    run_threads(body, 2)


def test_tensors_and_dtensors_do_not_mix_unasked() -> None:
    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1])
        x = distribute_tensor(np.ones(3), mesh, ["S(0)"])
        for other, kind in (
            (sw.ones(3), "Tensor"),
            (np.ones(3), "array"),
            (nn.Parameter(sw.ones(3)), "Tensor"),
        ):
            for mix in (lambda a, b: a + b, lambda a, b: b * a, lambda a, b: np.add(b, a)):
                with pytest.raises(LayoutError) as raised:
                    mix(x, other)
                assert f"is a {kind} of shape (3,), and others are DTensors on DeviceMesh" in str(
                    raised.value
                )
                assert "with dtensor.implicit_replication():" in str(raised.value)
            with implicit_replication():
                assert (x + other).full_tensor().tolist() == [2.0] * 3
        assert (x + np.float64(1.0) + np.ones(1) + sw.ones(1, 1)[0] + sw.tensor(2.0)).sum().item() == 18.0

    run_threads(body, 2)


def test_replicas_are_checked_in_debug_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1])
        check_replicas(distribute_tensor(np.ones(2), mesh, ["R"]))
        check_replicas(distribute_tensor(np.arange(4), mesh, ["S(0)"]))
        x = distribute_tensor(sw.ones(2, requires_grad=True), mesh, ["R"])
        with pytest.raises(LayoutError, match=r"^check_replicas: the replicas of a tensor"):
            from_local(np.full(2, rank), mesh, ["R"])
        with implicit_replication(), pytest.raises(LayoutError, match=r"^Add, input 1: the replicas"):
            _ = x + np.arange(2.0) * rank
        with pytest.raises(LayoutError, match=r"^gradient of to_local: the replicas .* say Partial\(\)$"):
            (x.to_local() * float(rank + 1)).sum().backward()

    monkeypatch.setenv("SHARDWISE_DEBUG", "1")
    run_threads(body, 2)


def test_modes_and_hooks() -> None:
    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1])
        x = distribute_tensor(sw.tensor(WHOLE, requires_grad=True), mesh, ["S(0)"])
        with sw.no_grad():
            assert not (x * 2).requires_grad
        seen: list[Any] = []
        y = x * 3
        y.register_hook(lambda grad: seen.append(grad) or grad * 2)
        y.retain_grad()
        x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf))
        y.sum().backward()
        assert isinstance(seen[0], DTensor)
        assert seen[1] is x
        assert x.grad.full_tensor().tolist() == np.full((5, 2), 6.0).tolist()
        x.grad = None
        sw.recompute(lambda t: (t * t).sigmoid(), x).sum().backward()
        s = 1 / (1 + np.exp(-WHOLE * WHOLE))
        np.testing.assert_allclose(x.grad.full_tensor().numpy(), 2 * WHOLE * s * (1 - s))
        with sw.autocast(dtype=sw.bfloat16):
            product = x.astype(np.float32) @ distribute_tensor(np.ones((2, 3), np.float32), mesh, ["R"])
        assert product.dtype.name == "bfloat16"
        assert product.layout.placements == x.layout.placements
        with np.errstate(all="ignore"), sw.detect_anomaly(), pytest.raises(AnomalyError):
            ((x * 0).sqrt() * 0.0).sum().backward()
        assert sw.memory_stats()

    run_threads(body, 2)


def test_modules_with_hooks() -> None:
    def body(rank: int) -> None:
        mesh = DeviceMesh("cpu", [0, 1])
        layer = nn.Linear(2, 2, dtype=np.float64)
        for name, parameter in list(layer.named_parameters()):
            setattr(layer, name, distribute_tensor(parameter, mesh, ["R"]))
        seen: list[Any] = []
        layer.register_forward_hook(lambda module, inputs, output: seen.append(output))
        layer.register_full_backward_hook(lambda module, into, out: seen.append(out[0]))
        x = distribute_tensor(sw.tensor(WHOLE, requires_grad=True), mesh, ["S(0)"])
        layer(x).sum().backward()
        assert all(isinstance(each, DTensor) for each in seen)
        assert len(seen) == 2

    run_threads(body, 2)

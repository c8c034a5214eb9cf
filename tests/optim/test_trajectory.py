"""The paths of all optimizers, in float64, against their published formulas written out here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shardwise as sw
from shardwise import nn, optim
from shardwise.backend.kernels.kernel import plain_formulas

Rule = Callable[[np.ndarray, np.ndarray, dict[str, Any], int, dict[str, Any]], np.ndarray]


def decayed(theta: np.ndarray, g: np.ndarray, o: dict[str, Any]) -> np.ndarray:
    """The gradient of the loss plus half the squared norm, turned round for ascent as in PyTorch."""
    return (-g if o["maximize"] else g) + o["weight_decay"] * theta


def sgd(theta: np.ndarray, g: np.ndarray, s: dict[str, Any], t: int, o: dict[str, Any]) -> np.ndarray:
    g = decayed(theta, g, o)
    if o["momentum"] == 0:
        return theta - o["lr"] * g
    s["b"] = g if t == 1 else o["momentum"] * s["b"] + (1 - o["dampening"]) * g
    return theta - o["lr"] * (g + o["momentum"] * s["b"] if o["nesterov"] else s["b"])


def means(g: np.ndarray, s: dict[str, Any], betas: tuple[float, float]) -> None:
    s["m"] = betas[0] * s.get("m", 0.0) + (1 - betas[0]) * g
    s["v"] = betas[1] * s.get("v", 0.0) + (1 - betas[1]) * g**2


def adam(theta: np.ndarray, g: np.ndarray, s: dict[str, Any], t: int, o: dict[str, Any]) -> np.ndarray:
    """Kingma and Ba, algorithm 1; AMSGrad as in PyTorch, before the correction of the bias."""
    b1, b2 = o["betas"]
    if o["decoupled_weight_decay"]:
        g, theta = (-g if o["maximize"] else g), theta * (1 - o["lr"] * o["weight_decay"])
    else:
        g = decayed(theta, g, o)
    means(g, s, (b1, b2))
    s["largest"] = np.maximum(s.get("largest", 0.0), s["v"])
    m_hat = s["m"] / (1 - b1**t)
    v_hat = (s["largest"] if o["amsgrad"] else s["v"]) / (1 - b2**t)
    return theta - o["lr"] * m_hat / (np.sqrt(v_hat) + o["eps"])


def adagrad(theta: np.ndarray, g: np.ndarray, s: dict[str, Any], t: int, o: dict[str, Any]) -> np.ndarray:
    g = decayed(theta, g, o)
    s["G"] = s.get("G", o["initial_accumulator_value"]) + g**2
    return theta - o["lr"] / (1 + (t - 1) * o["lr_decay"]) * g / (np.sqrt(s["G"]) + o["eps"])


def rmsprop(theta: np.ndarray, g: np.ndarray, s: dict[str, Any], t: int, o: dict[str, Any]) -> np.ndarray:
    g, a = decayed(theta, g, o), o["alpha"]
    s["v"] = a * s.get("v", 0.0) + (1 - a) * g**2
    s["mean"] = a * s.get("mean", 0.0) + (1 - a) * g
    root = np.sqrt(s["v"] - s["mean"] ** 2 if o["centered"] else s["v"]) + o["eps"]
    s["b"] = o["momentum"] * s.get("b", 0.0) + g / root
    return theta - o["lr"] * s["b"]


def adadelta(theta: np.ndarray, g: np.ndarray, s: dict[str, Any], t: int, o: dict[str, Any]) -> np.ndarray:
    """Zeiler, algorithm 1."""
    g, rho = decayed(theta, g, o), o["rho"]
    s["g2"] = rho * s.get("g2", 0.0) + (1 - rho) * g**2
    dx = -np.sqrt(s.get("x2", 0.0) + o["eps"]) / np.sqrt(s["g2"] + o["eps"]) * g
    s["x2"] = rho * s.get("x2", 0.0) + (1 - rho) * dx**2
    return theta + o["lr"] * dx


def adamax(theta: np.ndarray, g: np.ndarray, s: dict[str, Any], t: int, o: dict[str, Any]) -> np.ndarray:
    """Kingma and Ba, algorithm 2, with PyTorch's epsilon."""
    g, (b1, b2) = decayed(theta, g, o), o["betas"]
    s["m"] = b1 * s.get("m", 0.0) + (1 - b1) * g
    s["u"] = np.maximum(b2 * s.get("u", 0.0), np.abs(g) + o["eps"])
    return theta - o["lr"] / (1 - b1**t) * s["m"] / s["u"]


def prepared(theta: np.ndarray, g: np.ndarray, o: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    if o["decoupled_weight_decay"]:
        return theta * (1 - o["lr"] * o["weight_decay"]), -g if o["maximize"] else g
    return theta, decayed(theta, g, o)


def nadam(theta: np.ndarray, g: np.ndarray, s: dict[str, Any], t: int, o: dict[str, Any]) -> np.ndarray:
    """Dozat, algorithm 2."""
    theta, g = prepared(theta, g, o)
    b1, b2 = o["betas"]
    mu = [b1 * (1 - 0.5 * 0.96 ** (i * o["momentum_decay"])) for i in range(1, t + 2)]
    means(g, s, (b1, b2))
    m_hat = mu[t] * s["m"] / (1 - math.prod(mu)) + (1 - mu[t - 1]) * g / (1 - math.prod(mu[:t]))
    return theta - o["lr"] * m_hat / (np.sqrt(s["v"] / (1 - b2**t)) + o["eps"])


def radam(theta: np.ndarray, g: np.ndarray, s: dict[str, Any], t: int, o: dict[str, Any]) -> np.ndarray:
    """Liu et al., algorithm 2, with PyTorch's threshold of 5."""
    theta, g = prepared(theta, g, o)
    b1, b2 = o["betas"]
    means(g, s, (b1, b2))
    m_hat, top = s["m"] / (1 - b1**t), 2 / (1 - b2) - 1
    rho = top - 2 * t * b2**t / (1 - b2**t)
    if rho <= 5:
        return theta - o["lr"] * m_hat
    r = math.sqrt((rho - 4) * (rho - 2) * top / ((top - 4) * (top - 2) * rho))
    return theta - o["lr"] * r * m_hat * math.sqrt(1 - b2**t) / (np.sqrt(s["v"]) + o["eps"])


def lamb(theta: np.ndarray, g: np.ndarray, s: dict[str, Any], t: int, o: dict[str, Any]) -> np.ndarray:
    """You et al., algorithm 2."""
    b1, b2 = o["betas"]
    means(-g if o["maximize"] else g, s, (b1, b2))
    r = s["m"] / (1 - b1**t) / (np.sqrt(s["v"] / (1 - b2**t)) + o["eps"]) + o["weight_decay"] * theta
    norm, length = np.linalg.norm(theta.ravel()), np.linalg.norm(r.ravel())
    return theta - o["lr"] * (norm / length if norm and length else 1.0) * r


def lion(theta: np.ndarray, g: np.ndarray, s: dict[str, Any], t: int, o: dict[str, Any]) -> np.ndarray:
    """Chen et al., algorithm 2."""
    g, (b1, b2), m = -g if o["maximize"] else g, o["betas"], s.get("m", 0.0)
    s["m"] = b2 * m + (1 - b2) * g
    return theta - o["lr"] * (np.sign(b1 * m + (1 - b1) * g) + o["weight_decay"] * theta)


def adafactor(theta: np.ndarray, g: np.ndarray, s: dict[str, Any], t: int, o: dict[str, Any]) -> np.ndarray:
    """Shazeer and Stern, algorithms 4 and 5, with the changes that PyTorch's documentation lists."""
    eps1 = np.finfo(theta.dtype).eps if o["eps"][0] is None else o["eps"][0]
    g, beta = -g if o["maximize"] else g, 1 - t ** o["beta2_decay"]
    alpha = max(o["eps"][1], math.sqrt(np.mean(theta**2))) * min(o["lr"], 1 / math.sqrt(t))
    theta = theta - o["lr"] * o["weight_decay"] * theta
    if g.ndim > 1:
        s["R"] = beta * s.get("R", 0.0) + (1 - beta) * (g**2).mean(-1, keepdims=True)
        s["C"] = beta * s.get("C", 0.0) + (1 - beta) * (g**2).mean(-2, keepdims=True)
        v = s["R"] @ s["C"] / np.maximum(s["R"].mean(-2, keepdims=True), eps1)
    else:
        s["v"] = v = beta * s.get("v", 0.0) + (1 - beta) * g**2
    u = g / np.maximum(np.sqrt(v), eps1)
    return theta - alpha * u / max(1.0, math.sqrt(np.mean(u**2)) / o["d"])


COMMON: dict[str, Any] = {"maximize": False, "weight_decay": 0.0}
RULES: dict[str, tuple[Rule, dict[str, Any]]] = {
    "SGD": (sgd, {"lr": 1e-3, "momentum": 0.0, "dampening": 0.0, "nesterov": False}),
    "Adam": (
        adam,
        {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "amsgrad": False, "decoupled_weight_decay": False},
    ),
    "AdamW": (
        adam,
        {
            "lr": 1e-3,
            "betas": (0.9, 0.999),
            "eps": 1e-8,
            "amsgrad": False,
            "decoupled_weight_decay": True,
            "weight_decay": 1e-2,
        },
    ),
    "Adagrad": (adagrad, {"lr": 1e-2, "lr_decay": 0.0, "initial_accumulator_value": 0.0, "eps": 1e-10}),
    "RMSprop": (rmsprop, {"lr": 1e-2, "alpha": 0.99, "eps": 1e-8, "momentum": 0.0, "centered": False}),
    "Adadelta": (adadelta, {"lr": 1.0, "rho": 0.9, "eps": 1e-6}),
    "Adamax": (adamax, {"lr": 2e-3, "betas": (0.9, 0.999), "eps": 1e-8}),
    "NAdam": (
        nadam,
        {
            "lr": 2e-3,
            "betas": (0.9, 0.999),
            "eps": 1e-8,
            "momentum_decay": 4e-3,
            "decoupled_weight_decay": False,
        },
    ),
    "RAdam": (
        radam,
        {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "decoupled_weight_decay": False},
    ),
    "LAMB": (lamb, {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-6}),
    "Lion": (lion, {"lr": 1e-4, "betas": (0.9, 0.99)}),
    "Adafactor": (adafactor, {"lr": 1e-2, "beta2_decay": -0.8, "eps": (None, 1e-3), "d": 1.0}),
}
"""Each formula with its defaults, which are PyTorch's where PyTorch has the optimizer."""

MOVED = {"betas": (0.5, 0.7), "eps": 1e-3, "lr": 0.1, "weight_decay": 0.2}
CASES: list[tuple[str, dict[str, Any]]] = [
    *[(name, {}) for name in RULES],
    *[(name, {"maximize": True, "lr": 0.05, "weight_decay": 0.1}) for name in RULES],
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.4, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.7, "nesterov": True, "weight_decay": 0.1}),
    *[(name, MOVED) for name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "LAMB")],
    *[(name, {"amsgrad": True, "weight_decay": 0.1, "betas": (0.9, 0.5)}) for name in ("Adam", "AdamW")],
    ("AdamW", {"betas": (0.0, 0.0), "lr": 0.01}),
    *[(name, {**MOVED, "decoupled_weight_decay": True}) for name in ("Adam", "NAdam", "RAdam")],
    ("RAdam", {"betas": (0.9, 0.97), "lr": 0.1}),
    ("NAdam", {"momentum_decay": 0.3, "lr": 0.1}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.3, "eps": 1e-3, "lr": 0.5}),
    *[
        ("RMSprop", {"centered": centered, "momentum": momentum, "alpha": 0.8, "eps": 1e-3})
        for centered, momentum in ((False, 0.9), (True, 0.0), (True, 0.5))
    ],
    ("Adadelta", {"lr": 0.5, "rho": 0.6, "eps": 1e-2, "weight_decay": 0.1}),
    ("Lion", {"betas": (0.3, 0.6), "lr": 0.01, "weight_decay": 0.5}),
    ("Adafactor", {"lr": 0.5, "beta2_decay": -0.5, "eps": (1e-2, 0.1), "d": 1.5, "weight_decay": 0.1}),
]
SHAPES = [(4, 3), (5,), (), (2, 3, 2)]


def gradient(theta: np.ndarray, step: int) -> np.ndarray:
    """Set by the value and the step, of sizes from 0.1 to 10."""
    return np.asarray(np.sin(3 * theta + step) * 10.0 ** (step % 3 - 1))


@pytest.mark.parametrize(("name", "given"), CASES, ids=lambda value: str(value))
@pytest.mark.parametrize("way", ["fused", "plain"])
def test_thirty_steps_of_the_published_formula(name: str, given: dict[str, Any], way: str) -> None:
    rule, defaults = RULES[name]
    options = {**COMMON, **defaults, **given}
    rng = np.random.default_rng(1)
    arrays = [np.asarray(rng.standard_normal(shape)) for shape in SHAPES]
    params = [nn.Parameter(array.copy()) for array in arrays]
    places = [p.data for p in params]
    states: list[dict[str, Any]] = [{} for _ in arrays]
    opt = getattr(optim, name)(params, **given)
    for step in range(30):
        if step == 12:  # at any time, by hand or by a scheduler
            opt.param_groups[0]["lr"] = options["lr"] = 0.3 * options["lr"]
        for i, p in enumerate(params):
            g = gradient(arrays[i], step)
            p.grad = sw.tensor(g)
            arrays[i] = np.asarray(rule(arrays[i], g, states[i], step + 1, options))
        if way == "plain":
            with plain_formulas():
                opt.step()
        else:
            opt.step()
        for p, expected in zip(params, arrays, strict=True):
            np.testing.assert_allclose(p.data, expected, rtol=1e-10, atol=1e-12)
    assert all(p.data is place for p, place in zip(params, places, strict=True))


REAL = [name for name in RULES if name != "Adafactor"]


@pytest.mark.parametrize("name", REAL)
def test_complex_parameters_move_as_pairs_of_real_ones(name: str) -> None:
    rng = np.random.default_rng(2)
    start = rng.standard_normal((3, 4, 2))
    options = {"lr": 0.1, "weight_decay": 0.1}
    z = nn.Parameter(start[..., 0] + 1j * start[..., 1])
    pair = nn.Parameter(start.copy())
    a, b = getattr(optim, name)([z], **options), getattr(optim, name)([pair], **options)
    for _ in range(5):
        g = rng.standard_normal((3, 4, 2))
        z.grad, pair.grad = sw.tensor(g[..., 0] + 1j * g[..., 1]), sw.tensor(g)
        a.step()
        b.step()
    np.testing.assert_allclose(np.stack([z.data.real, z.data.imag], -1), pair.data, rtol=1e-13)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_narrow_parameters_stay_near(name: str, dtype: str) -> None:
    start = np.random.default_rng(0).standard_normal(40).reshape(5, 8)
    options = {"eps": 1e-3} if "eps" in RULES[name][1] and name != "Adafactor" else {}
    p, wide = nn.Parameter(sw.tensor(start, dtype=dtype)), nn.Parameter(start.copy())
    narrow_opt, wide_opt = getattr(optim, name)([p], **options), getattr(optim, name)([wide], **options)
    for step in range(10):
        g = sw.tensor(np.cos(np.arange(40) + step).reshape(5, 8), dtype=dtype)
        p.grad, wide.grad = g, g.double()
        narrow_opt.step()
        wide_opt.step()
    assert str(p.dtype) == dtype
    assert all(
        str(value.dtype) == dtype for value in narrow_opt.state[p].values() if isinstance(value, np.ndarray)
    )
    allowed = {"float32": 2e-6, "float16": 1e-2, "bfloat16": 8e-2}[dtype]
    np.testing.assert_allclose(p.data.astype(np.float64), wide.data, rtol=0, atol=allowed)


@pytest.mark.parametrize("name", RULES)
def test_empty_and_strided_parameters(name: str) -> None:
    start = np.random.default_rng(4).standard_normal((4, 6))
    plain = nn.Parameter(start.copy())
    others = [
        nn.Parameter(np.asfortranarray(start)),
        nn.Parameter(np.repeat(start, 2, 0)[::2]),
        nn.Parameter(start[::-1].copy()[::-1]),
        nn.Parameter(np.zeros((0, 3))),
        nn.Parameter(np.zeros((2, 0))),
    ]
    opt = getattr(optim, name)([plain, *others])
    for step in range(4):
        g = np.sin(np.arange(24.0) + step).reshape(4, 6)
        for p in (plain, *others):
            p.grad = sw.tensor(g.T.copy()).transpose(0, 1) if p.shape == (4, 6) else sw.zeros_like(p)
        opt.step()
    for p in others[:3]:
        np.testing.assert_allclose(p.data, plain.data, rtol=1e-13)


def test_lamb_goes_by_the_direction_alone_where_there_is_no_norm() -> None:
    p, q = nn.Parameter(np.zeros(2)), nn.Parameter(np.ones(2))
    opt = optim.LAMB([p, q], lr=0.1, eps=0.0)
    p.grad, q.grad = sw.tensor(np.array([3.0, -3.0])), sw.tensor(np.zeros(2))
    with np.errstate(invalid="ignore"):
        opt.step()
    np.testing.assert_allclose(p.data, [-0.1, 0.1], rtol=1e-12)


def test_adafactor_keeps_a_row_and_a_column() -> None:
    p, v = nn.Parameter(np.ones((5, 3, 4))), nn.Parameter(np.ones(7))
    p.grad, v.grad = sw.ones_like(p), sw.ones_like(v)
    opt = optim.Adafactor([p, v])
    opt.step()
    shapes = [{key: value.shape for key, value in opt.state[x].items() if key != "step"} for x in (p, v)]
    assert shapes == [{"row_var": (5, 3, 1), "col_var": (5, 1, 4)}, {"variance": (7,)}]


def test_adafactor_refuses_complex_numbers() -> None:
    z = nn.Parameter(np.ones(3, np.complex128))
    z.grad = sw.ones_like(z)
    with pytest.raises(sw.errors.DTypeError) as error:
        optim.Adafactor([z]).step()
    assert str(error.value) == "Adafactor: a parameter of shape (3,) is complex128; wanted real numbers"


def test_centered_rmsprop_of_equal_gradients_stays_finite() -> None:
    p = nn.Parameter(np.ones(50, np.float32))
    opt = optim.RMSprop([p], lr=1e-3, alpha=0.9, centered=True)
    for _ in range(60):
        p.grad = sw.tensor(np.linspace(0.1, 7.3, 50).astype(np.float32))
        opt.step()
    assert np.isfinite(p.data).all()


@pytest.mark.parametrize("name", [name for name in REAL if name != "LAMB"])  # which measures all elements
@pytest.mark.parametrize("way", ["fused", "plain"])
def test_an_infinite_parameter_without_gradient_stays(name: str, way: str) -> None:
    """As entries of a mask may be."""
    options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    p = nn.Parameter(np.array([-np.inf, np.inf, 1.0]))
    opt = getattr(optim, name)([p], **options)
    for _ in range(3):
        p.grad = sw.tensor(np.array([0.0, 0.0, 1.0]))
        if way == "plain":
            with plain_formulas():
                opt.step()
        else:
            opt.step()
    np.testing.assert_array_equal(p.data[:2], [-np.inf, np.inf])
    assert p.data[2] < 1.0

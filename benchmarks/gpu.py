"""CUDA kernels beside a copy: how much of the memory's speed each reaches, and a training step on the device.

The limit is a copy from the device to itself, measured in the same run. A kernel's rate counts what it has to
move, every operand and every result once; whatever else it reads is its own loss. Times are of the device,
between two events; the first calls, which compile, do not count. Without a device nothing is measured.
"""

from __future__ import annotations

import statistics
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from contest.gpt import GPT
from contest.options import parser, result, write
from contest.task import LEARNING_RATE, WEIGHT_DECAY, Task
from table import Result

import shardwise as sw
from shardwise import optim
from shardwise.backend import get_backend, normal
from shardwise.backend.cuda import CudaBackend
from shardwise.backend.kernels.activation import activation, gate, rectifier, smooth
from shardwise.backend.kernels.attention.attention import attention_backward, attention_forward
from shardwise.backend.kernels.channel.batch_norm import batch_norm_backward, batch_norm_forward
from shardwise.backend.kernels.optimizer.optimizer import Update, adam, lamb, sgd
from shardwise.backend.kernels.place.embedding import embedding_backward
from shardwise.backend.kernels.pointwise import choice, regression
from shardwise.backend.kernels.random.dropout import dropout_backward, dropout_forward
from shardwise.backend.kernels.reduction.reduction import column_sum, sum_of_squares
from shardwise.backend.kernels.reduction.scan import running_sum
from shardwise.backend.kernels.row.loss import cross_entropy_backward, cross_entropy_forward
from shardwise.backend.kernels.row.norm import layer_norm_backward, layer_norm_forward
from shardwise.backend.kernels.row.rms_norm import rms_norm_backward, rms_norm_forward
from shardwise.backend.kernels.row.softmax import (
    log_softmax_backward,
    log_softmax_forward,
    softmax_backward,
    softmax_forward,
)
from shardwise.backend.kernels.window import convolution
from shardwise.backend.kernels.window.pooling import maximum_forward

ROWS, COLUMNS = 16384, 4096  # of float32: 256 MiB an array, several times any cache
TINY_ROWS, TINY_COLUMNS = 64, 128
DTYPES = ("float32", "float16")
GPT_TASK = Task(layers=8, dim=512, heads=8, context=512, batch=16, vocabulary=4096)
TINY_TASK = Task(layers=1, dim=32, heads=2, context=8, batch=2, vocabulary=64)


class Entry(NamedTuple):
    """A call to be timed, and how many bytes it has to move."""

    name: str
    call: Callable[[], object]
    bytes: int


def seconds(call: Callable[[], object], rounds: int, steps: int) -> float:
    """The median time that the device takes for a call, over `rounds` times `steps` calls."""
    import cupy

    for _ in range(2):
        call()
    took = []
    for _ in range(rounds):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        for _ in range(steps):
            call()
        stop.record()
        stop.synchronize()
        took.append(cupy.cuda.get_elapsed_time(start, stop) * 1e-3 / steps)
    return statistics.median(took)


def pointwise(x: Any, g: Any, b: int) -> Iterator[Entry]:
    mask = x > 0.0
    yield Entry("gelu forward", lambda: activation.gelu_forward(x), 2 * b)
    yield Entry("gelu backward", lambda: activation.gelu_backward(g, x), 3 * b)
    yield Entry("gelu tanh forward", lambda: activation.gelu_tanh_forward(x), 2 * b)
    yield Entry("gelu tanh backward", lambda: activation.gelu_tanh_backward(g, x), 3 * b)
    yield Entry("sigmoid forward", lambda: smooth.sigmoid_forward(x), 2 * b)
    yield Entry("mish backward", lambda: smooth.mish_backward(g, x), 3 * b)
    yield Entry("leaky_relu backward", lambda: rectifier.leaky_relu_backward(g, x, 0.01), 3 * b)
    yield Entry("where", lambda: choice.choose(x, g, mask), 3 * b + x.size)
    yield Entry("huber forward", lambda: regression.huber_forward(x, g, 1.0), 3 * b)
    yield Entry("swiglu forward", lambda: gate.swiglu_forward(x), b + b // 2)
    yield Entry("dropout forward", lambda: dropout_forward(x, 0.1, 1, 2, 0), 2 * b + x.size)
    yield Entry("dropout backward", lambda: dropout_backward(g, mask, 0.1), 2 * b + x.size)


def over_rows(x: Any, g: Any, b: int) -> Iterator[Entry]:
    weight, bias = x[0].copy(), g[0].copy()
    y, logs = softmax_forward(x), log_softmax_forward(x)
    _, mean, rstd = layer_norm_forward(x, weight, bias, 1e-5)
    _, scale = rms_norm_forward(x, weight, 1e-5)
    yield Entry("softmax forward", lambda: softmax_forward(x), 2 * b)
    yield Entry("softmax backward", lambda: softmax_backward(g, y), 3 * b)
    yield Entry("log_softmax forward", lambda: log_softmax_forward(x), 2 * b)
    yield Entry("log_softmax backward", lambda: log_softmax_backward(g, logs), 3 * b)
    yield Entry("layer_norm forward", lambda: layer_norm_forward(x, weight, bias, 1e-5), 2 * b)
    yield Entry("layer_norm backward", lambda: layer_norm_backward(g, x, weight, mean, rstd, 1e-5), 3 * b)
    yield Entry("rms_norm forward", lambda: rms_norm_forward(x, weight, 1e-5), 2 * b)
    yield Entry("rms_norm backward", lambda: rms_norm_backward(g, x, weight, scale, 1e-5), 3 * b)
    yield Entry("column_sum", lambda: column_sum(x), b)
    yield Entry("sum_of_squares", lambda: sum_of_squares(x), b)
    yield Entry("running_sum along rows", lambda: running_sum(x, 1), 2 * b)
    yield Entry("running_sum along columns", lambda: running_sum(x, 0), 2 * b)


def with_indices(x: Any, g: Any, b: int) -> Iterator[Entry]:
    rows, columns = x.shape
    labels = get_backend("cuda").asarray(np.arange(rows) * 7919 % columns)
    lines = get_backend("cuda").asarray(np.arange(rows) * 7919 % max(rows // 4, 1))
    loss, logsumexp = cross_entropy_forward(x, labels, -100)
    yield Entry("cross_entropy forward", lambda: cross_entropy_forward(x, labels, -100), b)
    yield Entry(
        "cross_entropy backward", lambda: cross_entropy_backward(loss, x, labels, logsumexp, -100), 2 * b
    )
    yield Entry("embedding backward", lambda: embedding_backward(g, lines, max(rows // 4, 1)), b + b // 4)


def images(x: Any, b: int) -> Iterator[Entry]:
    side = 32 if x.size % (32 * 1024) == 0 else 8
    planes = x.size // (side * side * 16)
    image = x.reshape(planes, 16, side, side)
    _, mean, variance = batch_norm_forward(image, None, None, 1e-5)
    windows = (tuple(range(2 * o, 2 * o + 2) for o in range(side // 2)),) * 2
    ones, zeros = (1, 1), (1, 1)
    columns = np.empty_like(image, order="C", shape=(16, 3, 3, 1, side, side))
    first = image[:1]
    yield Entry("batch_norm forward", lambda: batch_norm_forward(image, None, None, 1e-5), 2 * b)
    yield Entry(
        "batch_norm backward",
        lambda: batch_norm_backward(image, image, None, mean, variance, 1e-5),
        3 * b,
    )
    yield Entry("max_pool2d forward", lambda: maximum_forward(image, windows), b + b // 4 + x.size * 2)
    yield Entry(
        "windows of one image",
        lambda: convolution.take_windows_(columns, first, ones, zeros, ones),
        first.nbytes + columns.nbytes,
    )


def optimizers(x: Any, b: int) -> Iterator[Entry]:
    for update, states in ((sgd, 0), (adam, 2), (lamb, 3)):
        yield optimizer(update, [x.copy() for _ in range(2 + states)], b * (2 + states) + b * (1 + states))


def optimizer(update: Update, arrays: list[Any], moved: int) -> Entry:
    parts = [list(np.split(abs(array.reshape(-1)), 8)) for array in arrays]
    numbers = [tuple(0.01 for _ in update.numbers)] * 8
    return Entry(f"{update.name} of 8 parameters", lambda: update(parts, numbers), moved)


def random_numbers(like: Any, dtype: str, count: int) -> Iterator[Entry]:
    size = np.dtype(dtype).itemsize
    yield Entry("normal", lambda: normal((count,), dtype, 1, 2, 0, like=like), count * size)


def attention(tiny: bool) -> Iterator[tuple[str, Callable[[], object], float]]:
    """Attention calls with their floating-point operations."""
    heads, length, features = (2, 16, 8) if tiny else (64, 2048, 64)
    rng = np.random.default_rng(0)
    q, k, v = (
        get_backend("cuda").asarray(rng.standard_normal((heads, length, features), np.float32))
        for _ in range(3)
    )
    y, peak, share = attention_forward(q, k, v, None, None, 0.125, True)
    operations = 2.0 * heads * length * length * features  # two products, half of each under the mask
    yield "forward", lambda: attention_forward(q, k, v, None, None, 0.125, True), operations
    backward = (y, q, k, v, None, None, y, peak, share, 0.125, True)
    yield "backward", lambda: attention_backward(*backward), 2.5 * operations


def entries(dtype: str, tiny: bool) -> Iterator[Entry]:
    rows, columns = (TINY_ROWS, TINY_COLUMNS) if tiny else (ROWS, COLUMNS)
    like = get_backend("cuda").empty((1,), "float32")
    x = normal((rows, columns), dtype, 1, 1, like=like)
    g = normal((rows, columns), dtype, 1, 2, like=like)
    for family in (
        pointwise(x, g, x.nbytes),
        over_rows(x, g, x.nbytes),
        with_indices(x, g, x.nbytes),
        images(x, x.nbytes),
        optimizers(x, x.nbytes),
    ):
        yield from family
    if dtype == "float32":
        yield from random_numbers(like, dtype, rows * columns)


def training_step(tiny: bool) -> Callable[[], object]:
    """A step of a GPT on the device."""
    task = TINY_TASK if tiny else GPT_TASK
    model = GPT(task)
    model.load_state_dict(task.weights())
    model = model.to("cuda")
    optimizer = optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    rows = task.rows(0, 0)
    index, target = sw.tensor(rows[:, :-1]).to("cuda"), sw.tensor(rows[:, 1:]).to("cuda")

    def step() -> None:
        loss = model(index, target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def copy_rate(options: Namespace) -> float:
    """GB/s that a copy reads and writes."""
    count = (1 << 12) if options.tiny else (1 << 28)
    source, target = (get_backend("cuda").empty((count,), "float32") for _ in range(2))
    source[...] = 1.0
    took = seconds(lambda: np.copyto(target, source), options.rounds, options.steps)
    return 2 * source.nbytes / took / 1e9


def measure(options: Namespace) -> Iterator[Result]:
    """Time everything, printing a line each."""
    limit = copy_rate(options)
    print(f"a copy moves {limit:.0f} GB/s")
    for dtype in DTYPES:
        for entry in entries(dtype, options.tiny):
            took = seconds(entry.call, options.rounds, options.steps)
            rate = entry.bytes / took / 1e9
            print(f"{dtype:8} {entry.name:28} {took * 1e6:10.1f} us {rate:8.0f} GB/s {rate / limit:5.0%}")
            yield result(f"{entry.name}, {dtype}", "GB/s", rate, limit=limit, more=True)
    for name, call, operations in attention(options.tiny):
        took = seconds(call, options.rounds, options.steps)
        print(f"causal attention {name}: {took * 1e6:.1f} us, {operations / took / 1e12:.2f} TFLOP/s")
        yield result(f"causal attention {name}, float32", "TFLOP/s", operations / took / 1e12)
    took = seconds(training_step(options.tiny), options.rounds, 1)
    print(f"a step of a GPT: {took * 1e3:.2f} ms")
    yield result("GPT step on the device", "ms", took * 1e3)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the results."""
    options = parser(__doc__.splitlines()[0], rounds=7, steps=5).parse_args(argv)
    print("torch is not measured: " + ("--no-peer" if options.no_peer else "the limit is the device's"))
    usable, reason = CudaBackend().available()
    if not usable:
        print(f"nothing is measured: {reason}")
    write(options, list(measure(options)) if usable else [])
    return 0


if __name__ == "__main__":
    sys.exit(main())

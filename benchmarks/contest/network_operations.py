"""What networks are made of: norms, losses, dropout, attention, convolution, and matrix products."""

from __future__ import annotations

from contest.operation import Operation

__all__ = ["network_operations", "products"]


def network_operations(rows: int, columns: int, tiny: bool) -> list[Operation]:
    """List them.

    Parameters
    ----------
    rows, columns : int
        Of a matrix; other inputs have about as many elements.
    tiny : bool
        Next to no data, whatever the rest says.
    """
    size = (rows, columns)
    big = 6 if tiny else 8000
    return [
        Operation("softmax", lambda d: [d.normal(*size)], lambda lib, x: lib.F.softmax(x, -1), 1),
        Operation("log_softmax", lambda d: [d.normal(*size)], lambda lib, x: lib.F.log_softmax(x, -1), 1),
        Operation(
            "layer_norm",
            lambda d: [d.normal(*size), d.normal(columns), d.normal(columns)],
            lambda lib, x, w, b: lib.F.layer_norm(x, (columns,), w, b),
            1,
        ),
        Operation(
            "rms_norm",
            lambda d: [d.normal(*size), d.normal(columns)],
            lambda lib, x, w: lib.F.rms_norm(x, (columns,), w),
            1,
        ),
        _cross_entropy(rows * columns // min(256, columns), min(256, columns)),
        _cross_entropy(max(rows * columns // big, 1), big),
        Operation("dropout", lambda d: [d.normal(*size)], lambda lib, x: lib.F.dropout(x, 0.1), 0),
        Operation(
            "embedding",
            lambda d: [d.below(rows, rows), d.normal(rows, columns)],
            lambda lib, i, w: lib.F.embedding(i, w),
        ),
        Operation(
            "mse_loss", lambda d: [d.normal(*size), d.normal(*size)], lambda lib, a, b: lib.F.mse_loss(a, b)
        ),
        *_spatial(rows, columns),
    ]


def _cross_entropy(rows: int, classes: int) -> Operation:
    return Operation(
        f"cross_entropy of {classes}",
        lambda d: [d.normal(rows, classes), d.below(classes, rows)],
        lambda lib, x, t: lib.F.cross_entropy(x, t),
        free=True,  # ours makes the gradient while it has the exponentials
    )


def _spatial(rows: int, columns: int) -> list[Operation]:
    side = 32 if columns > 32 else 4
    channels = 32 if columns > 32 else 2
    batch = max(rows * columns // (channels * side * side), 1)
    image, few = (batch, channels, side, side), (max(batch // 8, 1), channels, side, side)
    return [
        Operation(
            "batch_norm",
            lambda d: [d.normal(*image), d.normal(channels), d.normal(channels)],
            lambda lib, x, w, b: lib.F.batch_norm(x, None, None, w, b, True),
            1,
        ),
        Operation("max_pool2d", lambda d: [d.normal(*image)], lambda lib, x: lib.F.max_pool2d(x, 2)),
        Operation(
            "conv2d",
            lambda d: [d.normal(*few), d.normal(channels, channels, 3, 3)],
            lambda lib, x, w: lib.F.conv2d(x, w, padding=1),
            flops=2 * few[0] * side * side * channels * channels * 9,
        ),
    ]


def _attention(tokens: int, context: int, heads: int) -> Operation:
    shape = (max(tokens // context, 1), heads, context, 32)
    return Operation(
        f"causal attention over {context}",
        lambda d: [d.normal(*shape) for _ in range(3)],
        lambda lib, q, k, v: lib.F.scaled_dot_product_attention(q, k, v, is_causal=True),
        # Half of both products lies behind the mask.
        flops=2 * shape[0] * heads * context * context * 32,
    )


def products(tiny: bool) -> list[Operation]:
    """List matrix products and what consists of them."""
    cube, m, k, n, batch, t = (8, 8, 4, 8, 2, 8) if tiny else (1024, 2048, 256, 1024, 128, 128)
    contexts = (4, 8) if tiny else (128, 512, 2048)
    return [
        _product((m, k), (k, n)),
        _product((cube, cube), (cube, cube)),
        _product((batch, t, 32), (batch, 32, t)),
        *(_attention(contexts[-1], context, 2 if tiny else 8) for context in contexts),
    ]


def _product(a: tuple[int, ...], b: tuple[int, ...]) -> Operation:
    name = f"product of {'x'.join(map(str, a))} and {'x'.join(map(str, b))}"
    flops = 2 * b[-1]
    for n in a:
        flops *= n
    return Operation(name, lambda d: [d.normal(*a), d.normal(*b)], lambda lib, x, y: x @ y, flops=flops)

"""Cases of attention and of recurrent units."""

from __future__ import annotations

from collections.abc import Iterator

from device_cases.case import RNG, Case, normal
from shardwise.backend.kernels.attention.attention import Dropped, attention_backward, attention_forward
from shardwise.backend.kernels.recurrent.gru import gru_backward, gru_forward
from shardwise.backend.kernels.recurrent.lstm import lstm_backward, lstm_forward

__all__ = ["attention", "recurrent"]


def attention() -> Iterator[tuple[str, Case]]:
    dropped = Dropped(0.3, 7, 2**35, 5)
    for name, (lead, t, s, d, e) in {
        "square": ((2, 3), 5, 5, 4, 4),
        "wide": ((2,), 3, 70, 8, 5),
        "tall": ((), 40, 6, 3, 2),
        "long": ((1,), 70, 66, 2, 2),
        "no keys": ((2,), 3, 0, 4, 4),
        "no queries": ((2,), 0, 3, 4, 4),
    }.items():
        q, k, v = normal(*lead, t, d), normal(*lead, s, d), normal(*lead, s, e)
        hidden = RNG.random((t, s)) < 0.7
        hidden[:1] = False  # a query without keys
        many = normal(*lead, t, s)
        for causal, bias, mask, drop in (
            (False, None, None, None),
            (True, None, None, dropped),
            (True, normal(s), None, None),
            (False, many, hidden, None),
            (False, None, hidden[:, :1], dropped),
        ):
            settings = (0.5, causal, drop)
            y, peak, share = attention_forward.plain(q, k, v, bias, mask, *settings)
            g = normal(*y.shape)
            yield name, Case(attention_forward, (q, k, v, bias, mask, *settings), s)
            for statistics in ((peak, share), (None, None)):
                arguments = (g, q, k, v, bias, mask, y, *statistics, *settings)
                yield name, Case(attention_backward, arguments, max(s, t), 10.0)
    q, k = normal(2, 1, 3, 4, 5), normal(2, 2, 1, 6, 5)  # heads that share keys
    y = attention_forward.plain(q, k, k, None, None, -0.3, True)[0]
    yield "shared", Case(attention_forward, (q, k, k, None, None, -0.3, True), 6)
    yield (
        "shared",
        Case(attention_backward, (y + 1.0, q, k, k, None, None, y, None, None, -0.3, True), 6, 10.0),
    )
    some = (False, True, False, False)
    arguments = (y + 1.0, q, k, k, None, None, y, None, None, 0.3, True, None, some)
    yield "one needed", Case(attention_backward, arguments, 6, 10.0)


def recurrent() -> Iterator[tuple[str, Case]]:
    for name, (t, n, h, p) in {"few": (3, 4, 5, 5), "one": (1, 1, 1, 1), "some": (4, 3, 6, 2)}.items():
        seen = RNG.random((t, n, 1)) < 0.7
        for reverse, mask in ((False, None), (True, seen)):
            x, first, cell = normal(t, n, 4 * h), normal(n, p), normal(n, h)
            weight, projection = normal(4 * h, p), normal(p, h) if p != h else None
            start = (x, first, cell, weight, projection, mask, reverse)
            _, gates, cells = lstm_forward.plain(*start)
            given = (normal(t, n, p), normal(n, p), normal(n, h), cell, weight, projection)
            yield name, Case(lstm_forward, start, 20 * t)
            yield name, Case(lstm_backward, (*given, gates, cells, mask, reverse), 100 * t)
            x, first, weight = normal(t, n, 3 * h), normal(n, h), normal(3 * h, h)
            for bias in (None, normal(3 * h)):
                yield name, Case(gru_forward, (x, first, weight, bias, mask, reverse), 20 * t)
            results = gru_forward.plain(x, first, weight, None, mask, reverse)
            given = (normal(t, n, h), normal(n, h), first, weight)
            yield name, Case(gru_backward, (*given, *results, mask, reverse), 100 * t)

"""Sizes and times as people read them."""

from __future__ import annotations

__all__ = ["rate", "size", "time"]


def size(count: float) -> str:
    """Write a number of bytes.

    Examples
    --------
    >>> size(67108864), size(1536), size(12)
    ('64 MiB', '1.5 KiB', '12 bytes')
    """
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}".replace(".0 ", " ")
    return f"{count:.0f} bytes"


def time(seconds: float) -> str:
    """Write a time.

    Examples
    --------
    >>> time(1.44e-6), time(0.0123), time(75.0)
    ('1.4 us', '12.3 ms', '75.0 s')
    """
    for unit, scale in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * scale:
            return f"{seconds / scale:.1f} {unit}"
    return f"{seconds:.1f} s"


def rate(per_second: float) -> str:
    """Write bytes per second.

    Examples
    --------
    >>> rate(2.24e9), rate(7.1e8)
    ('2.2 GB/s', '710 MB/s')
    """
    return f"{per_second / 1e9:.1f} GB/s" if per_second >= 1e9 else f"{per_second / 1e6:.0f} MB/s"

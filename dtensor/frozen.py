"""Parameters of ops as keys, by which a strategy is remembered."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardwise.dtensor.sharded_array import ShardedArray

__all__ = ["frozen", "held_whole"]

_SMALL = 4096  # bytes of an array that is compared by its values


def held_whole(value: Any) -> Any:
    """Return a parameter with the wholes of sharded arrays in it, as an index may be; or itself."""
    if type(value) is ShardedArray:
        return value.whole()
    if type(value) is tuple or type(value) is list:
        held = [held_whole(each) for each in value]
        return value if all(a is b for a, b in zip(held, value, strict=True)) else type(value)(held)
    return value


def frozen(value: Any, by_shape: bool = False) -> Any:
    """Return a parameter as something that hashes by value; arrays of integers `by_shape`, if so told."""
    kind = value.__class__
    if kind is dict:
        return tuple([(name, frozen(each)) for name, each in value.items()])
    if kind is tuple or kind is list:
        return tuple([frozen(each, by_shape) for each in value])
    if by_shape and kind is np.ndarray and value.dtype.kind in "iu":
        return (value.shape, value.dtype.str)
    if kind is slice:
        return ("slice", value.start, value.stop, value.step)
    if kind is float:
        return repr(value)  # tells -0.0 from 0.0
    if kind is np.ndarray and value.nbytes <= _SMALL:  # an index, whose values a strategy may tell from
        return (value.shape, value.dtype.str, value.tobytes())
    return (kind, value) if kind is bool else value

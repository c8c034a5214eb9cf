"""CUDA updates of many parameters in one launch, made of the formulas in ``optimizer_formula.py``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.kernels.device.device_source import DeviceSource
from shardwise.backend.kernels.device.formula_source import formula_source
from shardwise.backend.kernels.device.launch_cuda import Launcher, upload

__all__ = ["update_each", "update_launcher"]

Formula = Callable[..., tuple[Array, ...]]

_PIECE = 1 << 14  # elements for one block: enough blocks for small models, and few enough for large ones
_MOST_BLOCKS = 1 << 16


def update_each(
    formula: Formula, columns: Sequence[Sequence[Array]], numbers: Sequence[tuple[float, ...]]
) -> None:
    """Apply a formula to contiguous arrays of one dtype and one device, the current one.

    Parameters
    ----------
    formula : callable
    columns : sequence of sequences of Array
        Parameters, gradients and each kind of state; those of the second one are not written.
    numbers : sequence of tuple of float
        Per parameter.
    """
    params = columns[0]
    distinct = list({id(row): row for row in numbers}.values())
    row_of = {id(row): i for i, row in enumerate(distinct)}
    sizes = np.array([array.size for array in params], np.int64)
    pieces = -(-sizes // _PIECE)
    which = np.repeat(np.arange(len(params)), pieces)
    first = np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = (np.arange(len(which)) - first) * _PIECE
    table = np.concatenate(
        [
            np.array([[array.data.ptr for array in column] for column in columns], np.int64).T.ravel(),  # type: ignore[attr-defined]
            sizes,
            np.array([row_of[id(row)] for row in numbers], np.int64),
            np.stack([which, starts], axis=1).ravel(),
            np.array(distinct, np.float64).ravel().view(np.int64),
        ]
    )
    update_launcher(formula, len(columns))(
        "update_each",
        params[0].dtype,
        ((min(len(which), _MOST_BLOCKS),), (256,)),
        *(upload(table), len(params), len(which), _PIECE),
    )


@functools.cache
def update_launcher(formula: Formula, columns: int) -> Launcher:
    """What launches the update by `formula`, of which so many parameters are arrays."""
    names = list(inspect.signature(formula).parameters)
    count = len(names) - columns
    given = [*(f"given[{i}]" for i in range(columns)), *(f"row[{i}]" for i in range(count))]
    text = (
        f"constexpr int COLUMNS = {columns}, NUMBERS = {count};\n\n"
        f"{formula_source(formula, 'formula', [('wide', name) for name in names], columns - 1)}\n"
        "__device__ inline void update(wide (&result)[COLUMNS - 1], const wide (&given)[COLUMNS], "
        "const wide (&row)[NUMBERS])\n{\n"
        f"    formula(result, {', '.join(given)});\n}}\n"
    )
    file = f"{formula.__name__}.cu"
    return Launcher(
        DeviceSource(file, given={file: '#include "device/update.cuh"\n', "update_formula.cuh": text})
    )

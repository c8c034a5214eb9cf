"""A kernel: one formula, and beside it fused versions that NumPy's and CuPy's arrays take when they can."""

from __future__ import annotations

import functools
import inspect
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec, TypeGuard, TypeVar

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.cuda import is_cuda_array
from shardwise.backend.kernels.device.on_device import DeviceVersion, device_of
from shardwise.backend.kernels.unavailable import FusedUnavailableError, report
from shardwise.backend.kind import is_narrow

__all__ = ["FusedUnavailableError", "Kernel", "plain_formulas", "wants_plain_formulas"]

P = ParamSpec("P")
R = TypeVar("R")

_FUSED_TYPES = (np.dtype(np.float32), np.dtype(np.float64))
_loading = threading.RLock()
_plain_only: ContextVar[bool] = ContextVar("plain_only", default=False)


class Kernel(Generic[P, R]):
    """A formula that runs on every kind of array, and fused code for NumPy's and CuPy's.

    The plain formula is the definition. The fused version is chosen when every array argument is
    exactly a ``numpy.ndarray`` (no subclass) and all share one dtype, float32 or float64, but for those
    that are named in `integer`. That for CuPy arrays is chosen alike, for arrays of one device, and takes
    float16 and bfloat16 too. Everything else, and a machine without numba, gets the plain formula.

    Arrays of float16 or bfloat16 for which there is no fused version are worked on in float32 and the
    results rounded back, since sums in eight or eleven bits are worth nothing, and NumPy's promotion of
    bfloat16 would give float32.

    Parameters
    ----------
    plain : callable
        The formula, written with the names in :mod:`shardwise.backend.names`.
    fused : str
        Where the fused version is, as ``"package.module:function"``; its module is imported on first
        use, since numba is slow to import. It takes the same arguments.
    arrays : int
        How many leading parameters are arrays (or None where the formula allows it).
    integer : str, optional
        The name of the one array that holds integers or booleans (labels, indices, a mask).
    in_place : int, default 0
        How many leading arrays are written; the fused version takes them only if they are
        C-contiguous, aligned and writeable, because a contiguous copy would get the result instead.
    statistics : int, default 0
        How many trailing results are statistics for the backward, which stay float32 when narrow
        arrays come in.
    least : int, default 0
        Where the first array has fewer elements the formula runs: importing numba takes longer than
        thousands of such calls could save.
    cuda : str, optional
        Where the version for CuPy arrays is, in the same form as `fused`, or a class that makes it of the
        formula.
    like : bool, default False
        The arrays only say where the result should be: their dtype does not matter to `cuda`.

    Examples
    --------
    >>> import numpy as np
    >>> double = Kernel(lambda x: x + x, "no.such.module:double", arrays=1)
    >>> double.plain(np.array([1.0, 2.0]))
    array([2., 4.])
    """

    def __init__(
        self,
        plain: Callable[P, R],
        fused: str,
        arrays: int,
        integer: str = "",
        in_place: int = 0,
        statistics: int = 0,
        least: int = 0,
        cuda: str = "",
        like: bool = False,
    ) -> None:
        functools.update_wrapper(self, plain)
        self.name = self.__name__ = plain.__name__.lstrip("_")
        self.plain = plain
        self._source = fused
        self._arrays = arrays
        self._in_place = in_place
        self._statistics = statistics
        self._least = least
        names = list(inspect.signature(plain).parameters)[:arrays]
        self._array_names = frozenset(names)
        self._integer = integer
        self._integer_at = names.index(integer) if integer else sys.maxsize
        self._floats_at = tuple([i for i in range(arrays) if i != self._integer_at])
        self._fused: Callable[P, R] | None = None
        self._reason = ""
        formula = (plain, arrays, integer)
        self.on_device = DeviceVersion(cuda, formula, in_place, like) if cuda else None

    def __repr__(self) -> str:
        return f"Kernel({self.name}, fused={self._source!r})"

    @property
    def fused(self) -> Callable[P, R]:
        """The fused version, imported now if it was not yet.

        Raises
        ------
        FusedUnavailableError
            If it cannot be had here; says why (numba missing, or a failed compilation).
        """
        if self._fused is None:
            if not self._reason:
                self._load()
            if self._fused is None:
                raise FusedUnavailableError(self._reason)
        return self._fused

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        fused = self._fused
        # Most calls are like the one before; whatever is special about one is looked at below.
        if fused is None or kwargs or self._in_place or _plain_only.get() or not self._fit_at_once(args):
            return self._choose(*args, **kwargs)
        try:
            return fused(*args, **kwargs)
        except FusedUnavailableError:
            return self._choose(*args, **kwargs)

    def _choose(self, *args: P.args, **kwargs: P.kwargs) -> R:
        arrays, labels = self._arrays_of(args, kwargs)
        if _fit(arrays, labels, self._least) and not self._reason and not _plain_only.get():
            written = arrays[: self._in_place]
            if all(isinstance(array, np.ndarray) and array.flags.carray for array in written):
                try:
                    return self.fused(*args, **kwargs)
                except FusedUnavailableError as error:
                    self._give_up(str(error))
        elif self.on_device is not None and self.on_device.fits(arrays, labels) and not _plain_only.get():
            there: R = self.on_device(device_of(arrays[0]), *args, **kwargs)
            if there is not NotImplemented:
                return there
        narrow = None if self._in_place else _narrow_dtype(arrays)
        if narrow is None:
            answer: R = _as_array(self.plain(*args, **kwargs))
            return answer
        again: Callable[..., R] = self
        wide = again(*map(_widened, args), **{name: _widened(value) for name, value in kwargs.items()})
        result: R = _narrowed(wide, narrow, self._statistics)
        return result

    def _fit_at_once(self, args: tuple[object, ...]) -> bool:
        """Whether arrays given by position are all NumPy's, of one dtype that is fused."""
        floating: object = None
        for i in self._floats_at:
            array = args[i] if i < len(args) else None
            if array is None:
                continue
            if type(array) is not np.ndarray:
                return False
            if floating is None:
                floating = array.dtype
                if floating not in _FUSED_TYPES or array.size < self._least:
                    return False
            elif array.dtype is not floating:
                return False
        labels = args[self._integer_at] if self._integer_at < len(args) else None
        return labels is None or (type(labels) is np.ndarray and labels.dtype.kind in "iub")

    def _arrays_of(
        self, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> tuple[list[object], object]:
        """The floating arrays that were given, and the integer one, or None."""
        arrays = [array for array in args[: self._arrays] if array is not None]
        labels: object = None
        if self._integer_at < len(args):
            labels = args[self._integer_at]
            arrays = [array for array in arrays if array is not labels]
        for name in kwargs.keys() & self._array_names:
            if name == self._integer:
                labels = kwargs[name]
            elif kwargs[name] is not None:
                arrays.append(kwargs[name])
        return arrays, labels

    def _load(self) -> None:
        # Alone: where an import fails, another thread that waited for it gets a module without its names.
        with _loading:
            try:
                self._fused = pkgutil.resolve_name(self._source)
            except ImportError as error:
                self._give_up(f"{type(error).__name__}: {error}")

    def _give_up(self, reason: str) -> None:
        self._reason = reason
        self._fused = None
        report(
            "fused kernels are not available, so the plain NumPy formulas run instead (several times slower, "
            f"same results): {reason}. Install numba (pip install numba) or check its installation."
        )


def _as_array(result: object) -> Any:
    """`result`, with an array of no dims for a scalar, which NumPy's operators make of such arrays."""
    return np.asarray(result) if isinstance(result, np.generic) else result


def _fit(arrays: list[object], labels: object, least: int) -> bool:
    """Whether all are exactly NumPy's, the floating ones of one fused dtype, and the first is large."""
    if labels is not None and (type(labels) is not np.ndarray or labels.dtype.kind not in "iub"):
        return False
    floating: np.dtype[np.generic] | None = None
    for array in arrays:
        if type(array) is not np.ndarray:
            return False
        dtype = array.dtype
        if floating is None:
            if dtype not in _FUSED_TYPES or array.size < least:
                return False
            floating = dtype
        elif dtype != floating:
            return False
    return True


def _is_plain_array(value: object) -> TypeGuard[Array]:
    """Whether it is an array of NumPy's or of CuPy's."""
    return type(value) is np.ndarray or is_cuda_array(value)


def _narrow_dtype(arrays: list[object]) -> np.dtype[np.generic] | None:
    """The first narrow float dtype among arrays of narrow and of float32 elements, if there is one."""
    narrow = None
    for array in arrays:
        if not _is_plain_array(array):
            return None
        if is_narrow(array.dtype):
            narrow = narrow or array.dtype
        elif array.dtype != np.float32:
            return None
    return narrow


def _widened(value: object) -> object:
    if _is_plain_array(value) and is_narrow(value.dtype):
        return value.astype(np.float32)
    return value


def _narrowed(result: object, dtype: np.dtype[np.generic], statistics: int) -> Any:
    """`result` with float32 arrays rounded to `dtype`, but for that many at the end of a tuple."""
    if isinstance(result, tuple):
        rounded = len(result) - statistics
        return (*(_narrowed(part, dtype, 0) for part in result[:rounded]), *result[rounded:])
    if _is_plain_array(result) and result.dtype == np.float32:
        return result.astype(dtype)
    return result


@contextmanager
def plain_formulas() -> Iterator[None]:
    """Make every kernel run its plain formula inside the ``with`` block (this context only).

    Examples
    --------
    >>> import numpy as np
    >>> from shardwise.backend.kernels.row.softmax import softmax_forward
    >>> with plain_formulas():
    ...     softmax_forward(np.zeros((1, 2)))
    array([[0.5, 0.5]])
    """
    token = _plain_only.set(True)
    try:
        yield
    finally:
        _plain_only.reset(token)


def wants_plain_formulas() -> bool:
    """Whether this runs inside a ``with plain_formulas()`` block."""
    return _plain_only.get()

"""A kernel's version for CuPy arrays: CUDA code, where the arrays fit it."""

from __future__ import annotations

import pkgutil
import threading
from collections.abc import Callable, Sequence
from typing import Any

from shardwise.backend.cuda import is_cuda_array
from shardwise.backend.kernels.device.device_source import FLOATS
from shardwise.backend.kernels.unavailable import FusedUnavailableError, report

__all__ = ["DeviceVersion", "device_of"]

_loading = threading.RLock()


def device_of(array: Any) -> object:
    """The device that a CuPy array is on, None for any other array."""
    return array.device if is_cuda_array(array) else None


class DeviceVersion:
    """CUDA code for one kernel, loaded when it is first called.

    Parameters
    ----------
    source : str
        Where the function is that launches it, as ``"package.module:function"``. It takes the arguments
        of the plain formula. A class there is called with `formula` and makes the function.
    formula : tuple, optional
        The plain formula, how many of its parameters are arrays, and the name of that of integers.
    in_place : int, default 0
        How many leading arrays are written.
    like : bool, default False
        The arrays only say on which device the result is wanted, so that their dtype does not matter.
    """

    def __init__(
        self,
        source: str,
        formula: tuple[Callable[..., Any], int, str] | None = None,
        in_place: int = 0,
        like: bool = False,
    ) -> None:
        self._source = source
        self._formula = formula
        self._in_place = in_place
        self._like = like
        self._function: Callable[..., Any] | None = None
        self.reason = ""
        """Why it is not to be had; empty as long as it may be."""

    @property
    def function(self) -> Callable[..., Any]:
        """What launches the code.

        Raises
        ------
        FusedUnavailableError
            If its module cannot be imported, or no code can be made of the formula.
        """
        if self._function is None:
            with _loading:
                try:
                    found = pkgutil.resolve_name(self._source)
                except ImportError as error:
                    raise FusedUnavailableError(f"{type(error).__name__}: {error}") from error
                self._function = found(*(self._formula or ())) if isinstance(found, type) else found
        return self._function

    def forget(self) -> None:
        """Let go of the code, and of the reason why it was not to be had."""
        self._function = None
        self.reason = ""

    def fits(self, arrays: Sequence[Any], labels: Any) -> bool:
        """Tell whether these are CuPy arrays of one device and one floating dtype, and can be written."""
        if self.reason or not arrays or not is_cuda_array(arrays[0]):
            return False
        first = arrays[0]
        every = [*arrays, labels] if labels is not None else arrays
        if any(type(array) is not type(first) for array in every):
            return False
        device = first.device
        if len(every) > 1 and any(array.device != device for array in every):
            return False
        if self._like:
            return True
        dtype = first.dtype
        if dtype.name not in FLOATS or any(array.dtype != dtype for array in arrays):
            return False
        if labels is not None and labels.dtype.kind not in "iub":
            return False
        return all(array.flags.c_contiguous for array in arrays[: self._in_place])

    def __call__(self, device: Any, *args: object, **kwargs: object) -> Any:
        """Run the code on `device`, or return NotImplemented where it cannot be had."""
        try:
            with device:
                return self.function(*args, **kwargs)
        except FusedUnavailableError as error:
            self.reason = str(error)
            report(
                "fused CUDA kernels are not available, so the plain CuPy formulas run instead (several times "
                f"slower, same results): {error}. Check CuPy's installation and that of NVRTC "
                "(pip install nvidia-cuda-nvrtc-cu12, or the one for your CUDA version)."
            )
            return NotImplemented

"""Keep the memory of large arrays between uses.

glibc gives every large block back to the system when it is freed, and the next array pays a page fault
for each 4 KiB, which costs more than the arithmetic on it. On float32 arrays of shape (2048, 1024), three
pointwise operations took 5.5 ms with glibc's defaults and 1.2 ms with these; a product of (2048, 256)
by (256, 1024) with GELU and a sum after it 15 to 23 ms, and 9 ms.
"""

from __future__ import annotations

import ctypes
import functools
import sys

__all__ = ["keep_pages"]

# From glibc's malloc.h. A size is an int there, so 2**31 - 1 is the most that can be said.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_TRIM_THRESHOLD = 2**31 - 1
_MMAP_THRESHOLDS = (2**30, 2**25)  # older versions take 32 MiB at most


@functools.cache
def keep_pages() -> bool:
    """Tell the C library to keep freed memory for the next arrays, for the life of this process.

    Training frees and makes arrays of the same sizes at every step, so what is kept is used again. The
    process holds on to the most that it ever needed, up to 2 GiB of it free. Further calls do nothing.

    Returns
    -------
    bool
        Whether it took effect: False where the C library is not glibc (macOS, musl).
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return False
    # Setting either also stops glibc from adapting both to what is freed.
    trimmed = libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD) == 1
    return trimmed and any(libc.mallopt(_M_MMAP_THRESHOLD, size) == 1 for size in _MMAP_THRESHOLDS)

"""The error of fused code that cannot be had, and the one warning about it."""

from __future__ import annotations

import functools
import logging

__all__ = ["FusedUnavailableError", "report"]

_logger = logging.getLogger(__name__)


class FusedUnavailableError(Exception):
    """A fused version that could not be compiled here; the kernel answers with its plain formula."""


@functools.cache
def report(message: str) -> None:
    """Log a warning once, however many kernels share it."""
    _logger.warning("%s", message)

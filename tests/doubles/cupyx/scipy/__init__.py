"""As much of CuPy's SciPy as is called."""

from cupyx.scipy import special

__all__ = ["special"]

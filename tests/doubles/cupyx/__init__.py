"""As much of CuPy's extras as is called."""

from cupyx import scipy
from cupyx._scatter import scatter_add, scatter_max, scatter_min

__all__ = ["scatter_add", "scatter_max", "scatter_min", "scipy"]

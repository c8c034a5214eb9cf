"""Numbers and NumPy's own names that PyTorch has too: ``sw.pi``, ``sw.inf``, ``x[:, sw.newaxis]``."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["dtype", "e", "inf", "nan", "newaxis", "pi"]

dtype = np.dtype
newaxis = None
e, pi = math.e, math.pi
inf, nan = math.inf, math.nan

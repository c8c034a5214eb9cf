"""Special functions."""

import scipy.special as _special
from cupy._launch import launch as _launch


def _served(name):
    function = getattr(_special, name)
    return lambda *args: _launch(function, args, {})


digamma, erf, erfc, erfinv, expit, gammaln = map(
    _served, ("digamma", "erf", "erfc", "erfinv", "expit", "gammaln")
)
i0, i0e, i1, i1e, polygamma = map(_served, ("i0", "i0e", "i1", "i1e", "polygamma"))
__all__ = ["digamma", "erf", "erfc", "erfinv", "expit", "gammaln", "i0", "i0e", "i1", "i1e", "polygamma"]

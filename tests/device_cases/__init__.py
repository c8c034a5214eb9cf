"""What the kernels for CuPy arrays are tried on: emulated on the CPU, and on a device where there is one.

A case is a kernel and its arguments in float64. Whoever runs it casts the floating arrays to a dtype, and
compares with the plain formula on these arrays, widened to float64.
"""

from device_cases.case import Case, cast, results
from device_cases.every import CASES

__all__ = ["CASES", "Case", "cast", "results"]

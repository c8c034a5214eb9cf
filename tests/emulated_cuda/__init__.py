"""A GPU that is not there: CuPy's interface over NumPy, which runs CUDA code as C++ on the CPU.

``install`` puts it in the place of CuPy. Launches are held against the kernel's declaration, argument by
argument, and then run on the CPU if there is a C++ compiler. What that shows: results, that threads wait for
each other where they have to, and that they keep to the arrays. What it does not: anything about speed, or
about CuPy itself.
"""

from emulated_cuda.compiler import compile_together, compiled, find_compiler
from emulated_cuda.cupy import DeviceArray, Launch, few_blocks, install, launches, to_device, to_host
from emulated_cuda.declaration import Declaration, Parameter, declarations

__all__ = [
    "Declaration",
    "DeviceArray",
    "Launch",
    "Parameter",
    "compile_together",
    "compiled",
    "declarations",
    "few_blocks",
    "find_compiler",
    "install",
    "launches",
    "to_device",
    "to_host",
]

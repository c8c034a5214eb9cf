"""Which reductions can be left to MPI."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # importing it for real starts MPI
    from mpi4py import MPI

__all__ = ["Natives"]


@dataclass(frozen=True, slots=True)
class Natives:
    """The reductions that MPI computes as NumPy does: its datatype and operation by (dtype, op)."""

    table: dict[tuple[np.dtype[np.generic], str], tuple[MPI.Datatype, MPI.Op]]

    def exact(self) -> Natives:
        """Give those whose result does not depend on the order in which parts are combined."""
        return Natives(
            {(dtype, op): found for (dtype, op), found in self.table.items() if dtype.kind in "biu"}
        )

    @staticmethod
    def of(mpi: ModuleType) -> Natives:
        """Collect them from the module ``mpi4py.MPI``.

        None of Open MPI's: with several under way at once it reads its own freed memory, and gives wrong
        numbers or ends the process (seen in 5.0.11 with reductions of one thread over a few communicators,
        by shared memory and by TCP; movement is right).
        """
        if "Open MPI" in mpi.Get_library_version():
            return Natives({})
        integers = {
            np.int8: mpi.INT8_T,
            np.int16: mpi.INT16_T,
            np.int32: mpi.INT32_T,
            np.int64: mpi.INT64_T,
            np.uint8: mpi.UINT8_T,
            np.uint16: mpi.UINT16_T,
            np.uint32: mpi.UINT32_T,
            np.uint64: mpi.UINT64_T,
        }
        on_integers = {
            "sum": mpi.SUM,
            "prod": mpi.PROD,
            "min": mpi.MIN,
            "max": mpi.MAX,
            "band": mpi.BAND,
            "bor": mpi.BOR,
            "bxor": mpi.BXOR,
        }
        # NumPy adds bools by or and multiplies them by and; as bytes of 0 and 1 they are bits.
        on_bools = {
            "sum": mpi.BOR,
            "max": mpi.BOR,
            "bor": mpi.BOR,
            "prod": mpi.BAND,
            "min": mpi.BAND,
            "band": mpi.BAND,
            "bxor": mpi.BXOR,
        }
        floats = {np.float32: mpi.FLOAT, np.float64: mpi.DOUBLE}
        on_floats = {"sum": mpi.SUM, "avg": mpi.SUM, "prod": mpi.PROD}
        # A complex product may round differently with its factors swapped, so ranks could differ.
        complexes = {np.complex64: mpi.C_FLOAT_COMPLEX, np.complex128: mpi.C_DOUBLE_COMPLEX}
        on_complexes = {"sum": mpi.SUM, "avg": mpi.SUM}
        families = (
            (integers, on_integers),
            ({np.bool_: mpi.UINT8_T}, on_bools),
            (floats, on_floats),
            (complexes, on_complexes),
        )
        return Natives(
            {
                (np.dtype(kind), op): (datatype, operation)
                for datatypes, operations in families
                for kind, datatype in datatypes.items()
                for op, operation in operations.items()
            }
        )

"""Strict doubles of what needs a GPU: ``cupy`` and ``cupyx`` here take their names while `installed`.

``cupy`` holds arrays in the memory of the host, and does what a GPU would do with them when the host has to
know, and not before (``_engine``), in the order of streams and events and in no other. Memory is poison until
it is written, and poison again when it was given back (``_memory``). ``cupy.cuda.nccl`` moves bytes between
processes, and between threads, and refuses what NCCL would answer with a hang or wrong numbers.

A process that is started with this folder first on its path, ``PYTHONPATH=tests/doubles``, has the double for
CuPy from the start. No file outside ``tests`` knows of it.
"""

from doubles.install import FOLDER, installed

__all__ = ["FOLDER", "installed"]

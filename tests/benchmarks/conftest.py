"""Benchmarks are scripts, not installed: what they import from beside them is found there."""

from __future__ import annotations

import sys

from house.floors import ROOT

# Last, so that no name there can hide another.
sys.path.append(str(ROOT / "benchmarks"))

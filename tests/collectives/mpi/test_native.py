"""Which reductions MPI is trusted with."""

from __future__ import annotations

from types import SimpleNamespace

from shardwise.collectives.mpi.native import Natives


def test_none_by_open_mpi() -> None:
    version = "Open MPI v5.0.11, package: Open MPI user@localhost Distribution"
    assert not Natives.of(SimpleNamespace(Get_library_version=lambda: version)).table  # type: ignore[arg-type]

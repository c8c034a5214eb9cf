"""What a rank of ``spawn(transport="mpi")`` runs: one call, whose result it leaves in a file."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

from shardwise.backend.errors import LaunchError
from shardwise.launch.parcel import Parcel, import_main, write_pickle

__all__ = ["IMPORTING", "main"]

IMPORTING = "SHARDWISE_IMPORTING_MAIN"
"""Set while a rank imports the caller's script: a `spawn` in there would start ranks without end."""


def main(folder: Path) -> None:
    """Make the call of the parcel in `folder`, and leave its result or error there."""
    rank = int(os.environ["RANK"])
    parcel = pickle.loads((folder / "parcel").read_bytes())
    assert isinstance(parcel, Parcel)
    sys.path[:] = parcel.sys_path
    if parcel.main is not None:
        os.environ[IMPORTING] = "1"
        import_main(parcel.main)
        del os.environ[IMPORTING]
    fn, args = pickle.loads(parcel.call)
    try:
        result = fn(rank, *args)
    except BaseException as error:
        _keep_error(folder / f"error.{rank}", error)
        raise
    try:
        write_pickle(folder / f"result.{rank}", result)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise LaunchError(
            f"rank {rank}: the result of {fn.__qualname__}, a {type(result).__name__}, cannot be sent back: "
            f"{error}. Return what can be pickled, such as arrays and numbers"
        ) from error


def _keep_error(path: Path, error: BaseException) -> None:
    """Keep the exception itself, if it survives a pickle; its text reaches the caller anyway."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever a class from anywhere does in its own pickling
        return
    write_pickle(path, error)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

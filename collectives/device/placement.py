"""Which device is this rank's: the GPUs of a host are dealt out to its ranks in turn."""

from __future__ import annotations

from typing import Literal

from shardwise.backend.select import get_backend
from shardwise.collectives.context import get_world

__all__ = ["local_device"]


def local_device(kind: Literal["auto", "cpu", "cuda"] = "auto") -> str:
    """Name this rank's device, and let new arrays of this thread be made there.

    Parameters
    ----------
    kind : {"auto", "cpu", "cuda"}
        "auto" is a GPU where there is one, else the CPU.

    Returns
    -------
    str
        ``"cpu"``, or ``"cuda:1"``: GPU number ``local_rank`` of the host, counted round if there are fewer. A
        launcher that shows each rank one GPU only makes that number 0.

    Raises
    ------
    DeviceError
        If "cuda" is asked for and there is none; says why and what to do.

    Notes
    -----
    Does not communicate. That no two ranks have the same GPU is found out, by what the GPUs say of
    themselves, at the first collective on device arrays.

    Examples
    --------
    >>> from shardwise import collectives
    >>> collectives.local_device("cpu")
    'cpu'
    """
    backend = get_backend(kind)
    if backend.name != "cuda":
        return backend.name
    index = get_world().local_rank % backend.device_count()
    backend.set_device(index)
    return f"cuda:{index}"

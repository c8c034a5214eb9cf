"""Python objects as arrays of bytes.

Large buffers of an object (those of its arrays) are laid beside its pickle, so that they are copied once
here and not at all where they arrive: what is unpickled looks at the bytes that came.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np

from shardwise.backend.array import Array
from shardwise.backend.errors import CollectiveError
from shardwise.collectives.layout import stretches

__all__ = ["check_pickled", "failed", "packed", "unpacked"]

_LARGE = (
    1 << 16
)  # bytes of a buffer that is laid beside the pickle; a smaller one does not keep the rest alive
_ALIGNED = 64  # bytes to a multiple of which everything is padded
_BYTE = np.dtype(np.uint8)
_LENGTH = np.dtype(np.int64)


def packed(obj: object) -> tuple[Array, Array]:
    """Give an object as bytes, and their number.

    Returns
    -------
    array of uint8, shape (length,)
        The number of parts and their lengths as int64, then the parts: the pickle, and its buffers.
    array of int64, shape (1,)
        The length; negative if the object cannot be pickled, and the bytes say why. A rank that cannot pickle
        takes part all the same: raising before would leave the others waiting.
    """
    buffers: list[pickle.PickleBuffer] = []

    def small(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < _LARGE:
            return True
        buffers.append(buffer)
        return False

    try:
        parts = [memoryview(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL, buffer_callback=small))]
        parts += [buffer.raw() for buffer in buffers]
    except Exception as error:
        return failed(f"cannot pickle {type(obj).__name__}: {type(error).__name__}: {error}")
    lengths = np.array([len(parts), *(part.nbytes for part in parts)], _LENGTH)
    places = _places([lengths.nbytes, *lengths[1:].tolist()])
    data = np.zeros(places[-1][1], _BYTE)
    for (begin, _), part in zip(places, [memoryview(lengths.tobytes()), *parts], strict=True):
        data[begin : begin + part.nbytes] = np.frombuffer(part, _BYTE)
    return data, np.array([data.size], _LENGTH)


def failed(reason: str) -> tuple[Array, Array]:
    """Give, in place of an object, why there is none."""
    text = reason.encode()
    data = np.zeros(_padded(len(text)), _BYTE)
    data[: len(text)] = np.frombuffer(text, _BYTE)
    return data, np.array([-data.size], _LENGTH)


def unpacked(data: Array) -> object:
    """Give the object of `data`, which goes on to belong to it."""
    count = int(data[: _LENGTH.itemsize].view(_LENGTH)[0])
    head = (1 + count) * _LENGTH.itemsize
    lengths = data[:head].view(_LENGTH)[1:].tolist()
    places = _places([head, *lengths])[1:]
    parts = [data[begin : begin + length].data for (begin, _), length in zip(places, lengths, strict=True)]
    return pickle.loads(parts[0], buffers=parts[1:])


def check_pickled(rows: Sequence[Array], sizes: Sequence[int], ranks: Sequence[int], where: str) -> None:
    """Raise if a rank has sent why it has no object.

    Parameters
    ----------
    rows : sequence of arrays
        What came from each rank.
    sizes : sequence of int
        The lengths that they have said.
    ranks : sequence of int
        Their global ranks.
    where : str
        Beginning of the message.
    """
    for row, size, rank in zip(rows, sizes, ranks, strict=True):
        if size < 0:
            reason = row.tobytes().rstrip(b"\0").decode(errors="replace")
            raise CollectiveError(f"{where}: rank {rank} {reason}.")


def _places(lengths: Sequence[int]) -> list[tuple[int, int]]:
    return stretches([_padded(length) for length in lengths])


def _padded(length: int) -> int:
    return -(-length // _ALIGNED) * _ALIGNED

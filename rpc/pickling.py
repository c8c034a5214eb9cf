"""Payloads as bytes: a pickle, and the memory of its arrays beside it, uncopied.

Functions and classes go by reference, as in any pickle. Arrays keep their identity in one message, their
dtype and their order in memory; a strided one is sent packed. What arrives lies in memory of its own.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from shardwise.backend import Array
from shardwise.backend.cuda import is_cuda_type
from shardwise.backend.errors import RpcError
from shardwise.rpc.agent import Companion, Incoming, Outgoing, Reducer
from shardwise.rpc.device_map import reduce_device_array
from shardwise.rpc.future import Future
from shardwise.tensor import Tensor

__all__ = ["Parcel", "Reducers", "incoming", "pack", "unpack"]

_BESIDE = 512  # bytes from which memory travels beside the pickle

_FEW = 8
_PLAIN = frozenset({type(None), bool, int, float, complex, str, FunctionType, BuiltinFunctionType, type})

_reading: ContextVar[Incoming] = ContextVar("shardwise_rpc_reading")


@dataclass(slots=True)
class Parcel:
    """A payload as bytes.

    Attributes
    ----------
    body : bytes-like
        The pickle.
    notes : bytes-like
        A pickle of what the companions have left; empty for nothing.
    buffers : list of bytes-like
        What lies beside the pickle.
    """

    body: bytes | bytearray | memoryview
    notes: bytes | bytearray | memoryview
    buffers: Sequence[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return len(self.body) + len(self.notes) + sum(memoryview(each).nbytes for each in self.buffers)


class Reducers(dict[type, Reducer | None]):
    """How types are sent that need more than a pickle; a type without an entry goes as its bases do."""

    def __init__(self) -> None:
        super().__init__()
        self._given: dict[type, Reducer] = {
            np.ndarray: _reduce_array,
            Tensor: _reduce_tensor,
            Future: _refuse,
        }

    def give(self, kind: type, reducer: Reducer) -> None:
        """Send objects of `kind`, and of types derived from it, as `reducer` says."""
        self._given[kind] = reducer
        self.clear()

    def __missing__(self, kind: type) -> Reducer | None:
        found = next((self._given[base] for base in kind.__mro__ if base in self._given), None)
        if found is None and is_cuda_type(kind):
            found = reduce_device_array
        if found is _reduce_array and kind is not np.ndarray:
            found = None  # a subclass has attributes of its own
        self[kind] = found
        return found


def pack(
    payload: object, outgoing: Outgoing, reducers: Reducers, companions: Iterable[Companion] = ()
) -> Parcel:
    """Write a payload, and what the companions leave with it. Its arrays are not copied.

    Raises
    ------
    Exception
        What the pickling raised; what it has noted to be undone has been.
    """
    buffers: list[memoryview] = []

    def beside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _BESIDE:
            return True
        buffers.append(raw)
        return False

    try:
        body: bytes | memoryview
        if _is_plain(payload):
            body = pickle.dumps(payload, 5)
        else:
            stream = io.BytesIO()
            pickler = _Pickler(stream, protocol=5, buffer_callback=beside)
            pickler.outgoing, pickler.reducers = outgoing, reducers
            pickler.dump(payload)
            body = stream.getbuffer()
        left = {each.key: note for each in companions if (note := each.leave(outgoing)) is not None}
        notes = pickle.dumps(left, 5) if left else b""
    except Exception as error:
        for undo in reversed(outgoing.undo):
            undo()
        if isinstance(error, AttributeError | pickle.PicklingError):
            error.add_note("Functions and classes are sent by reference: define them at the top of a module.")
        raise
    return Parcel(body, notes, buffers)


def unpack(parcel: Parcel, incoming: Incoming) -> object:
    """Undo `pack`; arrays go on to live in the buffers."""
    if parcel.notes:
        incoming.notes.update(pickle.loads(parcel.notes))
    token = _reading.set(incoming)
    try:
        return pickle.loads(parcel.body, buffers=parcel.buffers)
    finally:
        _reading.reset(token)


def incoming() -> Incoming:
    """Give the message that is being read; for what reducers have named to be called there."""
    return _reading.get()


def _is_plain(payload: object) -> bool:
    """Say whether something is small and needs no reducer; most calls and answers are so."""
    if type(payload) in _PLAIN:
        return True
    if isinstance(payload, tuple | list) and type(payload) in (tuple, list):
        return len(payload) <= _FEW and all(_is_plain(each) for each in payload)
    return type(payload) is dict and not payload


class _Pickler(pickle.Pickler):
    outgoing: Outgoing
    reducers: Reducers

    def reducer_override(self, obj: Any) -> Any:
        reducer = self.reducers[type(obj)]
        return NotImplemented if reducer is None else reducer(obj, self.outgoing)


def _reduce_array(x: Array, outgoing: Outgoing) -> Any:
    if x.nbytes < _BESIDE or x.dtype.hasobject:
        return NotImplemented
    fortran = x.flags.f_contiguous and not x.flags.c_contiguous
    packed = x.T if fortran else x if x.flags.c_contiguous else np.ascontiguousarray(x)
    raw = pickle.PickleBuffer(packed.reshape(-1).view(np.uint8).data)
    dtype: object = x.dtype.str if x.dtype.isbuiltin == 1 else x.dtype
    return _array, (raw, dtype, x.shape, "F" if fortran else "C")


def _array(raw: Any, dtype: Any, shape: tuple[int, ...], order: Any) -> Array:
    return np.ndarray(shape, dtype, raw, order=order)


def _reduce_tensor(tensor: Tensor, outgoing: Outgoing) -> Any:
    """Send the values and `requires_grad`; whoever knows of contexts joins the two tapes."""
    outgoing.tensors.append(tensor)
    if tensor.node is not None:
        return _tensor, (Tensor, (tensor.data, tensor.requires_grad))
    make, arguments = tensor.__reduce__()
    return _tensor, (make, arguments)


def _tensor(make: Callable[..., Tensor], arguments: tuple[object, ...]) -> Tensor:
    tensor = make(*arguments)
    incoming().tensors.append(tensor)
    return tensor


def _refuse(future: Future[Any], outgoing: Outgoing) -> Any:
    raise RpcError("a Future cannot be sent: wait for it, and send its value.")

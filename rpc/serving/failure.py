"""What a remote function raised, on its way to who has called it."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass

from shardwise.backend.errors import RemoteError

__all__ = ["Failure", "RemoteTraceback", "describe_failure", "rebuild_failure"]

_NOT_CARRIED = (SystemExit, KeyboardInterrupt, GeneratorExit)  # they would end who asked, not who raised


class RemoteTraceback(Exception):
    """The cause of an exception that was raised by another worker: its traceback as it was there.

    Parameters
    ----------
    text : str
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


@dataclass(slots=True)
class Failure:
    """An exception as it travels.

    Attributes
    ----------
    pickled : bytes
        Itself; empty if it cannot be pickled.
    name : str
        Of its type, with the module.
    shown : str
        Its message.
    traceback : str
    where : str
        Worker, rank, host and process.
    """

    pickled: bytes
    name: str
    shown: str
    traceback: str
    where: str


def describe_failure(error: BaseException, where: str) -> Failure:
    """Take an exception apart for the journey."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        shown = str(error)
    except Exception:
        shown = "(its text could not be made)"
    text = "".join(traceback.format_exception(kind, error, error.__traceback__))
    pickled = b""
    if not isinstance(error, _NOT_CARRIED):
        try:
            pickled = pickle.dumps(error, 5)
            pickle.loads(pickled)  # many exceptions can be pickled and not be made again
        except Exception:
            pickled = b""
    return Failure(pickled, name, shown, text, where)


def rebuild_failure(failure: Failure) -> BaseException:
    """Give what to raise: the exception itself, else a RemoteError that tells of it."""
    error: BaseException | None = None
    if failure.pickled:
        try:
            found = pickle.loads(failure.pickled)
            error = found if isinstance(found, Exception) else None
        except Exception:
            error = None
    if error is None:
        error = RemoteError(f"{failure.name}: {failure.shown}")
    error.__cause__ = RemoteTraceback(failure.traceback)
    error.add_note(f"on {failure.where}")
    return error

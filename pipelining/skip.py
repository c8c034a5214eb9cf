"""`stash` and `fetch`: values that go past the stages between, in a model that is cut anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from shardwise.backend.errors import ScheduleError
from shardwise.tensor import Tensor

__all__ = ["Box", "carrying", "fetch", "stash"]


class Box:
    """What one forward of one stage takes from earlier stages, and what it leaves for later ones.

    Parameters
    ----------
    incoming : dict of str to Tensor
        From earlier stages.

    Attributes
    ----------
    left : dict of str to Tensor
    taken : dict of str to Tensor
        Of `incoming`, what was fetched.
    """

    def __init__(self, incoming: Mapping[str, Tensor]) -> None:
        self.incoming = incoming
        self.left: dict[str, Tensor] = {}
        self.taken: dict[str, Tensor] = {}

    def fetch(self, name: str) -> Tensor:
        """Return a value, of this stage or of an earlier one."""
        if name in self.left:
            return self.left[name]
        if name not in self.incoming:
            known = ", ".join(sorted({*self.left, *self.incoming})) or "none"
            raise ScheduleError(
                f"fetch({name!r}): no earlier stage has stashed it; there are {known}. Call "
                f"stash({name!r}, value) before, and fetch the same values in every forward"
            )
        self.taken[name] = self.incoming[name]
        return self.incoming[name]


_box: ContextVar[Box | None] = ContextVar("shardwise_stashed", default=None)


def stash(name: str, value: Tensor) -> Tensor:
    """Put a value aside for `fetch`, further down in the same forward.

    In a pipeline it goes straight to the stages that fetch it, past those between, and its gradient comes
    straight back. A model that is not split keeps it until the next value of this name.

    Parameters
    ----------
    name : str
    value : Tensor

    Returns
    -------
    Tensor
        The value.

    Examples
    --------
    >>> import shardwise as sw
    >>> stash("residual", sw.tensor([1.0, 2.0]))
    tensor([1., 2.])
    >>> fetch("residual") + 1.0
    tensor([2., 3.])
    """
    if not isinstance(value, Tensor):
        raise ScheduleError(
            f"stash({name!r}): wanted a Tensor, got a {type(value).__name__}; give other values to each "
            "stage as keyword arguments"
        )
    box = _box.get()
    if box is None:
        box = Box({})
        _box.set(box)
    box.left[name] = value
    return value


def fetch(name: str) -> Tensor:
    """Return the value that was put aside under a name; any number of times.

    Raises
    ------
    ScheduleError
        Nothing was: the names that there are.
    """
    return (_box.get() or Box({})).fetch(name)


@contextmanager
def carrying(box: Box) -> Iterator[None]:
    """Run a block whose values go into a box, and come from it."""
    token = _box.set(box)
    try:
        yield
    finally:
        _box.reset(token)

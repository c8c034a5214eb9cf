"""How a rank waits for others of its host: it spins, then lets others run, then sleeps until it is woken.

Measured with four ranks on two cores, 1 KiB: to yield the core at once takes 6 us, to sleep at once 28, to
spin for long 349. So a rank spins only where it has a core of its own, and sleeps last. One that shares its
core sleeps soon: each of its turns is taken from a rank that works. It wakes up a few
times a second to see whether the others are still there, and so that signals come through.
"""

from __future__ import annotations

from collections.abc import Callable

from shardwise.backend.array import Array

__all__ = ["Patience"]

# Turns of one look, of about 20 ns spinning; of a yield nobody knows.
_SPIN = 1000
_YIELDS = 50

_SPIN_FOR, _YIELD_FOR = 4.0, 12.0  # times the expected duration
_CROWDED = 200e-6  # seconds after which a rank that shares its core sleeps, however long it is to last
_SHORTEST, _LONGEST = 200e-6, 0.05  # seconds of sleep
_PART = 0.5  # of what was waited


class Patience:
    """The way in which one rank waits.

    Parameters
    ----------
    rest : callable
        The compiled call that waits.
    crowded : bool
        Whether the rank shares its core with another.
    ask : callable
        Raises if somebody who is waited for has gone.

    Attributes
    ----------
    spin, yields : int
        For a rank that works on the same operation.
    first_spin, first_yields : int
        For ranks that may be on their way to it.
    ask : callable
    """

    def __init__(self, rest: Callable[..., int], crowded: bool, ask: Callable[[], None]) -> None:
        self.spin = 0 if crowded else _SPIN
        self.yields = _YIELDS
        self.first_spin = 0 if crowded else _SPIN // 4
        self.first_yields = 4 if crowded else 0
        self._rest = rest
        self._crowded = crowded
        self.ask = ask

    def pause(self, state: Array, waited: float, expected: float) -> None:
        """Wait a moment for the rank that the state names."""
        if waited < _SPIN_FOR * expected and not self._crowded:
            self._rest(state, _SPIN, 0, 0)
        elif waited < _YIELD_FOR * expected and not (self._crowded and waited > _CROWDED):
            self._rest(state, 0, _YIELDS, 0)
        else:
            self.ask()
            self._rest(state, 0, 0, int(1e9 * min(_LONGEST, max(_SHORTEST, _PART * waited))))

"""What the user says in the environment, read in one way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shardwise.backend.errors import LaunchError
from shardwise.collectives.reduction import Deterministic
from shardwise.collectives.timeout import TIMEOUT

__all__ = ["Settings", "read_seconds", "read_settings", "read_switch"]

_ON, _OFF = ("1", "on", "true", "yes"), ("0", "off", "false", "no")
_SWITCHES = ("SHARDWISE_DEBUG", "SHARDWISE_SHARE_GPUS", "SHARDWISE_SHM")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a world is made with, where `init` does not say otherwise.

    Attributes
    ----------
    timeout : float
        Seconds: ``SHARDWISE_TIMEOUT``.
    deterministic : str or None
        ``SHARDWISE_DETERMINISTIC``.
    debug : bool
        ``SHARDWISE_DEBUG``.
    folder : str or None
        Where verdicts leave flight records: ``SHARDWISE_FLIGHT_DIR``.
    log : bool
        Whether every record of the ledger is logged: ``SHARDWISE_LOG=comm``.
    """

    timeout: float
    deterministic: Deterministic | None
    debug: bool
    folder: str | None
    log: bool = False


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read what a world is made with; before any rank waits for another.

    Raises
    ------
    LaunchError
        If a variable has a value that nothing is known of, also one that is not read before it is needed.
    """
    for name in _SWITCHES:
        read_switch(name, environ)
    return Settings(
        read_seconds("SHARDWISE_TIMEOUT", environ, TIMEOUT),
        _read_order(environ),
        read_switch("SHARDWISE_DEBUG", environ),
        environ.get("SHARDWISE_FLIGHT_DIR") or None,
        _read_log(environ),
    )


def read_switch(name: str, environ: Mapping[str, str], default: bool = False) -> bool:
    """Say whether a variable is on; the default where it is not set, or empty.

    Raises
    ------
    LaunchError
        If it is neither on nor off.

    Examples
    --------
    >>> read_switch("SHARDWISE_SHM", {"SHARDWISE_SHM": "0"}, default=True)
    False
    """
    said = environ.get(name, "")
    if not said:
        return default
    if said.lower() not in _ON + _OFF:
        raise LaunchError(f"{name}={said!r}; wanted 1 or 0.")
    return said.lower() in _ON


def read_seconds(name: str, environ: Mapping[str, str], default: float) -> float:
    """Give the seconds that a variable says; the default where it is not set, or empty.

    Raises
    ------
    LaunchError
        If it is no positive number.
    """
    said = environ.get(name, "")
    if not said:
        return default
    try:
        seconds = float(said)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise LaunchError(f"{name}={said!r}; wanted a positive number of seconds.")
    return seconds


def _read_order(environ: Mapping[str, str]) -> Deterministic | None:
    said = environ.get("SHARDWISE_DETERMINISTIC", "")
    if said in ("", "0"):
        return None
    if said != "by-rank-order":
        raise LaunchError(f"SHARDWISE_DETERMINISTIC={said!r}; wanted 'by-rank-order', or nothing.")
    return "by-rank-order"


def _read_log(environ: Mapping[str, str]) -> bool:
    said = environ.get("SHARDWISE_LOG", "")
    if said not in ("", "0", "comm"):
        raise LaunchError(f"SHARDWISE_LOG={said!r}; wanted 'comm', or nothing.")
    return said == "comm"

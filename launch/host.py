"""Hosts and how many ranks each is meant for, as users and hostfiles name them."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardwise.backend.errors import LaunchError
from shardwise.launch.nodelist import expand_nodelist, split_list

__all__ = ["Host", "host_list", "is_here", "merge_hosts", "parse_hosts", "read_hostfile"]

_WANTED = "wanted `host`, `host slots=4` or `host:4`"

_COUNTS = ("slots", "cpu")
# What else may stand after a host is for one MPI alone. A misspelt number of ranks must not count as such.
_OF_ONE_MPI = (
    *("max_slots", "max-slots", "maxslots", "sockets", "cores", "topology", "port"),
    *("binding", "ifname", "map", "user", "username", "maxprocs"),
)


@dataclass(frozen=True, slots=True)
class Host:
    """A machine that ranks may run on.

    Attributes
    ----------
    name : str
        As MPI's launcher is to be told.
    slots : int or None
        How many ranks it is meant for; None where nobody said.
    cores : int or None
        How many cores a batch system gave there; None where it did not say.
    """

    name: str
    slots: int | None = None
    cores: int | None = None


def parse_hosts(text: str) -> tuple[Host, ...]:
    """Read what ``--hosts`` was given.

    Parameters
    ----------
    text : str
        ``a:2,b:2``, ``a,b``, or ``n[01-04]:2``; an IPv6 address stands in brackets.

    Returns
    -------
    tuple of Host
        In the order of their first mention. One that is named several times has the sum.

    Raises
    ------
    LaunchError
        If a part cannot be read.

    Examples
    --------
    >>> host_list(parse_hosts("n[1-2]:2,m"))
    'n1:2,n2:2,m:1'
    """
    found: list[Host] = []
    for part in split_list(text):
        names, count = _read_word(part)
        if not names:
            raise LaunchError(
                f"--hosts {text}: cannot read {part!r}; wanted HOST or HOST:RANKS, as in a:2,b:2"
            )
        if count == 0:
            raise LaunchError(f"--hosts {text}: {part!r} has no room for a rank; leave it out")
        found += [Host(name, count) for name in names]
    if not found:
        raise LaunchError("--hosts names no host; wanted something like --hosts a:2,b:2")
    return merge_hosts(found)


def read_hostfile(path: Path, source: str) -> tuple[Host, ...]:
    """Read a hostfile, in the dialect of any MPI or batch system.

    Parameters
    ----------
    path : Path
        A line for each host: ``host slots=4`` (Open MPI), ``host:4`` (MPICH, Intel MPI), ``host 4 ...``
        (Grid Engine), or the host again for each rank (PBS). What follows ``#`` is a comment.
    source : str
        What named the file, for messages.

    Returns
    -------
    tuple of Host
        As from :func:`parse_hosts`.

    Raises
    ------
    LaunchError
        If it cannot be read, or names no host.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"{source} {path} cannot be read: {error}") from error
    found = [
        host
        for number, line in enumerate(lines, start=1)
        if (text := line.partition("#")[0].strip())
        for host in _read_line(text, f"{source} {path}, line {number}")
    ]
    if not found:
        raise LaunchError(f"{source} {path} names no host")
    return merge_hosts(found)


def merge_hosts(hosts: Iterable[Host]) -> tuple[Host, ...]:
    """Put mentions of one host together, and count one rank for each without a number.

    Unless none has a number and none comes twice: then all stay open, and ranks will be spread evenly.
    """
    mentioned = list(hosts)
    names = list(dict.fromkeys(host.name for host in mentioned))
    if len(names) == len(mentioned) and all(host.slots is None for host in mentioned):
        return tuple(mentioned)
    slots = dict.fromkeys(names, 0)
    cores: dict[str, int | None] = dict.fromkeys(names)
    for host in mentioned:
        slots[host.name] += 1 if host.slots is None else host.slots
        cores[host.name] = cores[host.name] or host.cores
    return tuple(Host(name, slots[name], cores[name]) for name in names)


def is_here(name: str) -> bool:
    """Say whether a name means the machine that this process runs on; asks no name server."""
    if name == "localhost":
        return True
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(name).version == 6 else socket.AF_INET
    except ValueError:
        return name.partition(".")[0].lower() == socket.gethostname().partition(".")[0].lower()
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((name, 0))  # only an address of one's own can be bound
        except OSError:
            return False
    return True


def host_list(hosts: Sequence[Host]) -> str:
    """Write hosts as ``--hosts`` takes them.

    Examples
    --------
    >>> host_list([Host("a", 2), Host("b")])
    'a:2,b'
    """
    return ",".join(host.name if host.slots is None else f"{host.name}:{host.slots}" for host in hosts)


def _read_line(text: str, where: str) -> list[Host]:
    word, *rest = text.split()
    names, count = _read_word(word)
    if not names:
        raise LaunchError(f"{where}: {word!r} is no host; {_WANTED}")
    if rest and rest[0].isdigit():
        rest, count = [], int(rest[0])  # Grid Engine: the queue and its cores follow
    for pair in rest:
        name, equals, value = pair.partition("=")
        if not equals or name not in (*_COUNTS, *_OF_ONE_MPI):
            raise LaunchError(f"{where}: cannot read {pair!r} after the host; {_WANTED}")
        if name in _COUNTS:
            if not value.isdigit():
                raise LaunchError(f"{where}: {pair!r} has no number")
            if count not in (None, int(value)):
                raise LaunchError(f"{where}: both {count} and {value} ranks for {word!r}")
            count = int(value)
    if count == 0:
        raise LaunchError(f"{where}: {text!r} has no room for a rank; leave it out")
    return [Host(name, count) for name in names]


def _read_word(word: str) -> tuple[list[str], int | None]:
    """Read ``host``, ``host:2``, ``n[01-04]:2`` or ``[address]:2``; no names if it is nothing of these."""
    address = re.fullmatch(r"\[([0-9a-fA-F:]*:[0-9a-fA-F:.]*)\](?::(\d+))?", word)
    match = address or re.fullmatch(r"([^\s:]+)(?::(\d+))?", word)
    if match is None:
        return [], None
    names = [address[1]] if address is not None else expand_nodelist(match[1])
    # Nothing that ssh takes for an option, or a shell for more than a word.
    if address is None and not all(re.fullmatch(r"[\w@.][\w@.%-]*", name) for name in names):
        return [], None
    return names, None if match[2] is None else int(match[2])

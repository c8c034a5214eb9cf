"""Slurm's short forms: ``n[01-03,7],m2`` for nodes, ``2(x3),1`` for a number on each of them."""

from __future__ import annotations

import re

from shardwise.backend.errors import LaunchError

__all__ = ["expand_counts", "expand_nodelist", "split_list"]

_MOST_NODES = 1 << 20
"""A range that is longer was not meant, and would fill the memory."""


def expand_nodelist(text: str) -> list[str]:
    """Write out the names of a list of nodes, in its order.

    Parameters
    ----------
    text : str
        Names with commas between them; brackets hold numbers and ranges, whose leading zeros are kept.

    Returns
    -------
    list of str

    Raises
    ------
    LaunchError
        If brackets do not fit together, or hold something else.

    Examples
    --------
    >>> expand_nodelist("n[01-03,7],m2")
    ['n01', 'n02', 'n03', 'n7', 'm2']
    >>> expand_nodelist("r[1-2]n[0-1]")
    ['r1n0', 'r1n1', 'r2n0', 'r2n1']
    """
    return [name for part in split_list(text) for name in _expand(part, text)]


def split_list(text: str) -> list[str]:
    """Split at the commas that stand outside brackets; empty parts are left out.

    Examples
    --------
    >>> split_list("n[1,2]:4,m")
    ['n[1,2]:4', 'm']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def expand_counts(text: str) -> list[int]:
    """Write out a number for each node.

    Raises
    ------
    LaunchError
        If it is not such a list.

    Examples
    --------
    >>> expand_counts("2(x3),1")
    [2, 2, 2, 1]
    """
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\(x(\d+)\))?\s*", part)
        if match is None or int(match[2] or 1) > _MOST_NODES:
            raise LaunchError(f"cannot read {text!r} as numbers for nodes; wanted something like 2(x3),1")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _expand(part: str, whole: str) -> list[str]:
    match = re.fullmatch(r"([^\[\]]*)\[([^\[\]]+)\](.*)", part)
    if match is None:
        if "[" in part or "]" in part:
            raise LaunchError(
                f"the brackets of {whole!r} do not fit together; wanted names such as n[01-03,7]"
            )
        return [part]
    before, inside, after = match.groups()
    return [before + number + rest for number in _numbers(inside, whole) for rest in _expand(after, whole)]


def _numbers(inside: str, whole: str) -> list[str]:
    found: list[str] = []
    for run in inside.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", run)
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else -1
        if match is None or not 0 <= last - first < _MOST_NODES:
            raise LaunchError(
                f"cannot read [{inside}] in {whole!r}; wanted numbers and rising ranges, such as [01-03,7]"
            )
        found += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return found

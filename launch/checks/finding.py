"""A finding: what one check has seen, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

__all__ = ["Check", "Family", "Finding", "Status", "fail", "merge_hosts", "ok", "warn", "worst"]

Status = Literal["ok", "warn", "fail"]

_MOST = 4  # hosts that are named, and findings of one name that are told where all is well
_ORDER: tuple[Status, ...] = ("ok", "warn", "fail")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check has seen.

    Attributes
    ----------
    name : str
        Of what was looked at, in a word or two.
    status : {"ok", "warn", "fail"}
        Well; works, but worse than it could; does not work.
    what : str
        One line.
    fix : str
        One line that says what to do; empty where all is well.
    """

    name: str
    status: Status
    what: str
    fix: str = ""

    def __post_init__(self) -> None:
        assert self.status == "ok" or self.fix, f"{self.name}: {self.what}: what is to be done?"


Check: TypeAlias = Callable[[], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Family:
    """Findings that belong together.

    Attributes
    ----------
    name : str
    findings : tuple of Finding
    """

    name: str
    findings: tuple[Finding, ...]


def ok(name: str, what: str) -> Finding:
    """Make a finding that all is well."""
    return Finding(name, "ok", what)


def warn(name: str, what: str, fix: str) -> Finding:
    """Make a finding that something works worse than it could."""
    return Finding(name, "warn", what, fix)


def fail(name: str, what: str, fix: str) -> Finding:
    """Make a finding that something does not work."""
    return Finding(name, "fail", what, fix)


def worst(findings: Iterable[Finding]) -> Status:
    """Give the worst status of some findings; "ok" of none."""
    return max((finding.status for finding in findings), key=_ORDER.index, default="ok")


def merge_hosts(hosts: Sequence[str], found: Sequence[Sequence[Finding]]) -> tuple[Finding, ...]:
    """Put together what the same checks have found on several hosts.

    Parameters
    ----------
    hosts : sequence of str
        Names, in the order of `found`.
    found : sequence of sequences of Finding
        Per host.

    Returns
    -------
    tuple of Finding
        Findings that are equal on all hosts once; others with the names of their hosts.
    """
    merged: dict[Finding, list[str]] = {}
    for host, findings in zip(hosts, found, strict=True):
        for finding in findings:
            merged.setdefault(finding, []).append(host)
    told: list[Finding] = []
    for name in dict.fromkeys(finding.name for finding in merged):
        alike = [finding for finding in merged if finding.name == name]
        well = [finding for finding in alike if finding.status == "ok"]
        for finding in alike:
            if finding in well[_MOST:]:
                continue
            where = merged[finding]
            places = "" if len(where) == len(hosts) else f"{_listed(where)}: "
            told.append(replace(finding, what=places + finding.what))
        if well[_MOST:]:
            told.append(ok(name, f"well on {len(well[_MOST:])} more"))
    return tuple(told)


def _listed(hosts: Sequence[str]) -> str:
    more = len(hosts) - _MOST
    return ", ".join(hosts[:_MOST]) + (f" and {more} more" if more > 0 else "")

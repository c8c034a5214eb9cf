"""How what the doctor has found is shown: as calm text, or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from shardwise import __version__
from shardwise.launch.checks.finding import Family, Status, worst

__all__ = ["as_json", "as_text", "exit_code"]

_WORDS: dict[Status, str] = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}
_COLOURS: dict[Status, str] = {"ok": "\x1b[32m", "warn": "\x1b[33m", "fail": "\x1b[31m"}
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def as_text(families: Sequence[Family], *, coloured: bool, hint: str = "") -> str:
    """Write a line per finding, by family, and what to do under those that are not well.

    Parameters
    ----------
    families : sequence of Family
    coloured : bool
        Whether a terminal shows it.
    hint : str
        What the user may want to do next.
    """
    return "\n".join(_lines(families, coloured, hint))


def as_json(families: Sequence[Family], *, ranks: int, seconds: float) -> str:
    """Write an object with ``ok``, ``version``, ``ranks``, ``seconds`` and a list of ``findings``.

    Each finding has the ``family``, ``name``, ``status``, ``what`` and ``fix``.
    """
    findings = [{"family": family.name, **asdict(each)} for family in families for each in family.findings]
    report = {
        "ok": exit_code(families) == 0,
        "version": __version__,
        "ranks": ranks,
        "seconds": round(seconds, 2),
        "findings": findings,
    }
    return json.dumps(report, indent=2)


def exit_code(families: Sequence[Family]) -> int:
    """Give 1 if something does not work, else 0."""
    return int(worst(each for family in families for each in family.findings) == "fail")


def _lines(families: Sequence[Family], coloured: bool, hint: str) -> Iterator[str]:
    width = max((len(each.name) for family in families for each in family.findings), default=0)
    counts: Counter[Status] = Counter()
    for family in families:
        if not family.findings:
            continue
        yield f"{_BOLD}{family.name}{_PLAIN}" if coloured else family.name
        for each in family.findings:
            counts[each.status] += 1
            word = _WORDS[each.status]
            if coloured:
                word = f"{_COLOURS[each.status]}{word}{_PLAIN}"
            yield f"  {word}  {each.name.ljust(width)}  {each.what}"
            if each.fix:
                yield f"        {' ' * width}  -> {each.fix}"
    yield ""
    summary = (
        f"{counts.total()} checks, {_count(counts['warn'], 'warning')}, {_count(counts['fail'], 'failure')}."
    )
    yield f"{summary} {hint}".rstrip()


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"

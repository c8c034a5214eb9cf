"""Reports of one test from n ranks, merged into what one test reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import pytest
from _pytest._code.code import ReprFileLocation, TerminalRepr
from _pytest._io import TerminalWriter

__all__ = ["failure_report", "group_failures", "merge_reports", "rank_list"]

Phase = Literal["setup", "call", "teardown"]
PHASES: tuple[Phase, ...] = ("setup", "call", "teardown")


def rank_list(ranks: Iterable[int]) -> str:
    """Write ranks briefly.

    Examples
    --------
    >>> rank_list([0]), rank_list([0, 1, 2, 5])
    ('rank 0', 'ranks 0-2,5')
    """
    ordered = sorted(ranks)
    runs: list[list[int]] = []
    for rank in ordered:
        if runs and runs[-1][-1] == rank - 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    text = ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"rank {text}" if len(ordered) == 1 else f"ranks {text}"


class MergedText(TerminalRepr):
    """A failure made of one part for each group of ranks that said the same.

    Parameters
    ----------
    parts : sequence of (title, representation)
        The representation is pytest's own, in colour, or plain text.
    summary : str
        For the line in pytest's short summary.
    """

    def __init__(self, parts: Sequence[tuple[str, object]], summary: str) -> None:
        self._parts = parts
        self.reprcrash = ReprFileLocation("", 0, summary)

    def toterminal(self, tw: TerminalWriter) -> None:
        """Write the parts below each other."""
        for title, representation in self._parts:
            tw.line(f"--- {title} ---", bold=True)
            if isinstance(representation, TerminalRepr):
                representation.toterminal(tw)
            else:
                tw.line(str(representation))


def merge_reports(
    item: pytest.Item, by_rank: Mapping[int, Sequence[pytest.TestReport]]
) -> list[pytest.TestReport]:
    """Merge the reports that all ranks sent for one test.

    Parameters
    ----------
    item : pytest.Item
        The item in this process.
    by_rank : mapping
        For every rank, its reports of setup, call and teardown.

    Returns
    -------
    list of pytest.TestReport
        A phase passes only if it passed on every rank. Ranks that skip while others run fail the test.
    """
    merged = []
    for phase in PHASES:
        reports = {rank: report for rank, all_ in by_rank.items() for report in all_ if report.when == phase}
        if not reports:
            continue
        missing = set(by_rank) - set(reports)
        if phase == "call" and missing:
            continue  # setup failed on these ranks, and the report of setup says so
        merged.append(_merge_phase(item, phase, reports))
    return merged


def failure_report(
    item: pytest.Item, parts: Sequence[tuple[str, object]], summary: str, duration: float
) -> pytest.TestReport:
    """A failed call, for a test that did not come back from all of its ranks."""
    return _report(item, "call", "failed", MergedText(parts, summary), [], duration)


def group_failures(reports: Mapping[int, pytest.TestReport]) -> list[tuple[list[int], object]]:
    """Ranks whose failures read the same, with that failure."""
    groups: dict[str, tuple[list[int], object]] = {}
    for rank in sorted(reports):
        groups.setdefault(reports[rank].longreprtext, ([], reports[rank].longrepr))[0].append(rank)
    return list(groups.values())


def _merge_phase(
    item: pytest.Item, phase: Phase, reports: Mapping[int, pytest.TestReport]
) -> pytest.TestReport:
    outcomes = {rank: _outcome(report) for rank, report in reports.items()}
    duration = max(report.duration for report in reports.values())
    sections = _merge_sections(reports)
    first = reports[min(reports)]
    if "failed" in outcomes.values():
        groups = group_failures({rank: reports[rank] for rank in reports if outcomes[rank] == "failed"})
        parts = [(rank_list(ranks), longrepr) for ranks, longrepr in groups]
        fine = [rank for rank in reports if outcomes[rank] != "failed"]
        summary = "; ".join(f"{rank_list(ranks)}: {_one_line(reports[ranks[0]])}" for ranks, _ in groups)
        if fine:
            parts.append(
                (f"{rank_list(fine)}: {' and '.join(sorted({outcomes[rank] for rank in fine}))}", "")
            )
        return _report(item, phase, "failed", MergedText(parts, summary), sections, duration)
    if len(set(outcomes.values())) > 1 and "xfailed" not in outcomes.values():
        texts = [
            f"{rank_list(rank for rank in outcomes if outcomes[rank] == outcome)}: {outcome}"
            for outcome in sorted(set(outcomes.values()))
        ]
        disagreement = MergedText(
            [("ranks disagree", "\n".join(texts))], "ranks disagree: " + "; ".join(texts)
        )
        return _report(item, phase, "failed", disagreement, sections, duration)
    # All alike, or an expected failure that only some ranks met.
    model = next((reports[rank] for rank in reports if outcomes[rank] == "xfailed"), first)
    report = _report(item, phase, model.outcome, model.longrepr, sections, duration)
    if hasattr(model, "wasxfail"):
        report.wasxfail = model.wasxfail
    report.user_properties = list(first.user_properties)
    return report


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.failed and report.longreprtext.startswith("[XPASS(strict)]"):
        return "xpassed"  # if all ranks do, the report is that of a failure all the same
    return report.outcome


def _one_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash is not None else report.longreprtext
    return message.splitlines()[0] if message else ""


def _merge_sections(reports: Mapping[int, pytest.TestReport]) -> list[tuple[str, str]]:
    """Captured output, once for all ranks that printed the same."""
    seen: dict[tuple[str, str], list[int]] = {}
    for rank in sorted(reports):
        for section in reports[rank].sections:
            seen.setdefault(section, []).append(rank)
    return [(f"{title} ({rank_list(ranks)})", text) for (title, text), ranks in seen.items()]


def _report(
    item: pytest.Item,
    phase: Phase,
    outcome: Literal["passed", "failed", "skipped"],
    longrepr: object,
    sections: list[tuple[str, str]],
    duration: float,
) -> pytest.TestReport:
    keywords: dict[str, Literal[1]] = dict.fromkeys(item.keywords, 1)
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=keywords,
        outcome=outcome,
        longrepr=longrepr,  # type: ignore[arg-type]
        when=phase,
        sections=sections,
        duration=duration,
        start=0.0,
        stop=duration,
    )

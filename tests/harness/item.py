"""One multi-rank test in one world size, as pytest sees it in the parent process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

__all__ = ["MpiItem", "mpi_items"]


class MpiItem(pytest.Item):
    """Stands for a test that runs on `size` ranks elsewhere.

    Parameters
    ----------
    function : pytest.Function
        The item that pytest collected here; the ranks collect the same one.
    size : int
        Number of ranks.
    """

    def __init__(self, *, function: pytest.Function, size: int, **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.function = function
        self.size = size
        # So that -m and -k see what they would see on the function itself.
        self.own_markers = list(function.own_markers)
        self.keywords.update({mark.name: mark for mark in function.iter_markers()})
        self.extra_keyword_matches.update(function.listextrakeywords())

    @property
    def rank_nodeid(self) -> str:
        """The node id of this test in the ranks."""
        return self.function.nodeid

    def limit(self, default: float) -> float:
        """Seconds that the test may take: its timeout mark, else `default`."""
        mark = self.function.get_closest_marker("timeout")
        if mark is None:
            return default
        given = mark.args[0] if mark.args else mark.kwargs.get("timeout", default)
        return float(given) or default

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the test is written."""
        path, line, _ = self.function.reportinfo()
        return Path(path), line, self.name

    def runtest(self) -> None:
        """Never called: the plugin runs these items through its world."""
        raise NotImplementedError(f"{self.name} runs on {self.size} ranks, not here")


def mpi_items(function: pytest.Function, sizes: Sequence[int]) -> list[MpiItem]:
    """One item for each of `sizes` that is large enough for the test.

    Raises
    ------
    ValueError
        If the mark was given positional arguments, which pytest-mpi would ignore in silence here.
    """
    assert function.parent is not None  # pytest's own invariant for collected functions
    least = 1
    for mark in function.iter_markers("mpi"):
        if mark.args:
            raise ValueError(
                f"{function.nodeid}: pytest.mark.mpi takes no positional arguments, got {mark.args}; "
                "write pytest.mark.mpi(min_size=2)"
            )
        least = max(least, mark.kwargs.get("min_size", 1))
    stem, bracket, parameters = function.name.partition("[")
    inner = parameters[:-1] + "-" if bracket else ""
    return [
        MpiItem.from_parent(function.parent, name=f"{stem}[{inner}n={size}]", function=function, size=size)
        for size in sizes
        if size >= least
    ]

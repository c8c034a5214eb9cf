"""All cases by name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from device_cases.case import Case
from device_cases.elementwise import dropouts, formulas, gates, pointwise
from device_cases.loss import losses, weighted_losses
from device_cases.place import planes, scatters, windows
from device_cases.row import rows
from device_cases.sequence import attention, recurrent

__all__ = ["CASES"]


def _named() -> Iterator[tuple[str, Case]]:
    families = (
        pointwise,
        formulas,
        rows,
        attention,
        losses,
        weighted_losses,
        gates,
        recurrent,
        dropouts,
        planes,
        scatters,
        windows,
    )
    for name, case in (pair for family in families for pair in family()):
        yield f"{case.kernel.name}: {name}", case


@np.errstate(all="ignore")
def _numbered() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for name, case in _named():
        number, unique = 1, name
        while unique in cases:
            number += 1
            unique = f"{name} ({number})"
        cases[unique] = case
    return cases


CASES: dict[str, Case] = _numbered()

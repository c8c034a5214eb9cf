"""The list of names: each is NumPy's and CuPy's, and ShapeArray has a rule for it."""

from __future__ import annotations

from operator import attrgetter

import numpy as np
import pytest

from shardwise.backend.names import ATTRIBUTES, CREATION, FUNCTIONS, METHODS, UFUNCS
from shardwise.backend.shape import ShapeArray
from shardwise.backend.shape_function import DATA_DEPENDENT, RULES

ALL = (*UFUNCS, *FUNCTIONS, *CREATION)


def test_each_name_is_listed_once() -> None:
    assert len(set(ALL)) == len(ALL)


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs_are_ufuncs(name: str) -> None:
    assert isinstance(getattr(np, name), np.ufunc)


@pytest.mark.parametrize("name", [*FUNCTIONS, *CREATION])
def test_functions_have_a_rule(name: str) -> None:
    function = attrgetter(name)(np)
    assert not isinstance(function, np.ufunc)
    assert function in RULES
    assert function not in DATA_DEPENDENT


def test_no_rule_is_for_a_function_that_is_not_listed() -> None:
    assert set(RULES) == {attrgetter(name)(np) for name in (*FUNCTIONS, *CREATION)}


@pytest.mark.parametrize("name", [*ATTRIBUTES, *METHODS])
def test_arrays_and_shapes_have_the_attribute(name: str) -> None:
    assert hasattr(np.ndarray, name)
    assert hasattr(ShapeArray((2, 3)), name)


def test_cupy_has_every_name() -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed (pip install 'shardwise[cuda12]')")
    parts = {"": cupy, "linalg": cupy.linalg, "fft": cupy.fft}
    places = {name: name.rpartition(".")[::2] for name in ALL}
    assert [
        name for name, (part, last) in places.items() if not callable(getattr(parts[part], last, None))
    ] == []
    assert [name for name in (*ATTRIBUTES, *METHODS) if not hasattr(cupy.ndarray, name)] == []

"""Placements: their short forms, what they say of themselves, what is refused."""

from __future__ import annotations

import pickle

import pytest

from shardwise.dtensor import Partial, Replicate, Shard, Spec
from shardwise.dtensor.placement import Placement, as_placement
from shardwise.errors import LayoutError

SHORT: list[tuple[str, Placement]] = [
    ("R", Replicate()),
    ("S(0)", Shard(0)),
    ("S(-2)", Shard(-2)),
    (" S1 ", Shard(1)),
    ("P", Partial("sum")),
    ("P(max)", Partial("max")),
    ("P(product)", Partial("prod")),
]


@pytest.mark.parametrize(("text", "placement"), SHORT)
def test_short_forms(text: str, placement: Placement) -> None:
    assert as_placement(text) == placement
    assert as_placement(str(placement)) == placement
    assert pickle.loads(pickle.dumps(placement)) == placement
    assert hash(as_placement(text)) == hash(placement)


def test_questions() -> None:
    shard, replicate, partial = Shard(1), Replicate(), Partial("max")
    assert [each.is_shard() for each in (shard, replicate, partial)] == [True, False, False]
    assert [each.is_replicate() for each in (shard, replicate, partial)] == [False, True, False]
    assert [each.is_partial() for each in (shard, replicate, partial)] == [False, False, True]
    assert (shard.is_shard(1), shard.is_shard(0), partial.is_partial("max"), partial.is_partial("sum")) == (
        True,
        False,
        True,
        False,
    )


def test_written() -> None:
    assert [repr(each) for each in (Shard(0), Shard(1, (2, 3)), Replicate(), Partial())] == [
        "Shard(0)",
        "Shard(1, sizes=(2, 3))",
        "Replicate()",
        "Partial(sum)",
    ]
    assert repr(Spec("dp", None, ("tp", "cp"))) == "Spec('dp', None, ('tp', 'cp'))"
    assert Spec("dp") == Spec(("dp",)) != Spec("tp")
    assert hash(Spec("dp", partial={"tp": "sum"})) == hash(Spec(["dp"], partial={"tp": "sum"}))


@pytest.mark.parametrize("wrong", ["Q", "S", "S(a)", "P(", "", 3, None])
def test_what_is_no_placement(wrong: object) -> None:
    with pytest.raises(
        LayoutError, match=r"^a placement is Shard\(dim\), Replicate\(\) or Partial\(op\), in short"
    ):
        as_placement(wrong)  # type: ignore[arg-type]


def test_refused() -> None:
    with pytest.raises(
        LayoutError, match="Partial takes one of sum, avg, prod, min, max, band, bor, bxor, got"
    ):
        Partial("median")  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match=r"^Shard\(0\): sizes must be at least 0, got \(2, -1\)$"):
        Shard(0, (2, -1))
    with pytest.raises(LayoutError, match=r"^Shard takes whole numbers, got dim=1.5, sizes=None$"):
        Shard(1.5)  # type: ignore[arg-type]

"""Actions as text: what is read, what is refused, and that it comes back as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise.backend.errors import ScheduleError
from shardwise.pipelining.action import Action, parse_action
from shardwise.pipelining.program import Program

plain = st.builds(
    Action,
    st.integers(0, 40),
    st.sampled_from(["F", "I", "W", "B", "R", "SEND_F", "RECV_F", "SEND_B", "RECV_B"]),
    st.integers(0, 99),
)
once = st.builds(
    Action, st.integers(0, 40), st.sampled_from(["UNSHARD", "RESHARD", "REDUCE_GRAD", "SYNC_TIED"])
)
pair = st.builds(
    lambda a, b, kind: Action(a[0], "OVERLAP_F_B", None, (Action(a[0], "F", a[1]), Action(b[0], kind, b[1]))),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.sampled_from(["B", "I"]),
)


@given(st.one_of(plain, once, pair))
def test_what_is_written_is_read(action: Action) -> None:
    assert parse_action(str(action)) == action


@given(st.lists(st.lists(st.one_of(plain, once, pair), min_size=1), min_size=1))
def test_programs_come_back(ranks: list[list[Action]]) -> None:
    program = Program.of(ranks)
    assert Program.from_text(str(program)) == program


@pytest.mark.parametrize(
    "text",
    ["1B2junk", "1F-1", "1F", "F1", "5X1", "1OVERLAP_F_B", "", "0UNSHARD3", "1 F2", "(0F1;1F2)OVERLAP_F_B",
     "0F1>2", "0SEND_F1<2", "¹F1"],
)  # fmt: skip
def test_anything_else_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_action(text)
    assert repr(text) in str(caught.value)


def test_a_file_of_computations_has_nothing_else() -> None:
    with pytest.raises(ScheduleError, match="rank 1, cell 2: '0SEND_B0' does not compute"):
        Program.from_text("0F0\n1F0,1B0,0SEND_B0", "compute_only")


def test_blank_cells_are_idle(tmp_path: object) -> None:
    assert Program.from_text(" 0F0 ,,0B0\n,1F0,1B0") == Program.from_text("0F0,0B0\n1F0,1B0")

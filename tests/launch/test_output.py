"""Lines of n ranks on one screen."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise.launch.output import Channel, Screen, StreamName, TextSink


def make_screen(
    terminals: frozenset[StreamName] = frozenset(), *, prefixed: bool = True
) -> tuple[Screen, io.BytesIO, io.BytesIO]:
    out, err = io.BytesIO(), io.BytesIO()
    return Screen({"stdout": out, "stderr": err}, terminals, prefixed=prefixed), out, err


@given(
    st.lists(st.tuples(st.integers(0, 2), st.text("ab\n\r\0é", max_size=12)), max_size=30),
    st.booleans(),
)
def test_lines_of_each_rank_arrive_whole_and_in_order(writes: list[tuple[int, str]], prefixed: bool) -> None:
    screen, out, err = make_screen(prefixed=True)
    channels = [Channel(screen, rank, "stdout") for rank in range(3)]
    for rank, text in writes:
        channels[rank].feed(text.encode())
    for channel in channels:
        channel.close()
    assert err.getvalue() == b""
    shown = out.getvalue().split(b"\n")
    assert shown.pop() == b""
    for rank in range(3):
        written = "".join(text for of, text in writes if of == rank).encode()
        expected = written.split(b"\n")
        if expected[-1] == b"":
            expected.pop()
        prefix = f"[r{rank}] ".encode()
        assert [line.removeprefix(prefix) for line in shown if line.startswith(prefix)] == expected
    assert all(line.startswith((b"[r0] ", b"[r1] ", b"[r2] ")) for line in shown)


def test_streams_go_to_their_own_sink_and_logs_keep_all_bytes(tmp_path: Path) -> None:
    screen, out, err = make_screen(prefixed=False)
    log = tmp_path / "0.err"
    channel = Channel(screen, 0, "stderr", log)
    channel.feed(b"a\rb\nc")
    channel.close()
    channel.close()
    assert (out.getvalue(), err.getvalue()) == (b"", b"a\rb\nc\n")
    assert log.read_bytes() == b"a\rb\nc"


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    screen, out, _ = make_screen(prefixed=False)
    channel = Channel(screen, 0, "stdout")
    for _ in range(3):
        channel.feed(b"x" * (1 << 19))
    assert len(out.getvalue()) > 1 << 20


def terminal_after(data: bytes) -> list[str]:
    """What a terminal shows after `data`: the lines, the last one being the unfinished one."""
    lines = [""]
    column = 0
    text = data.decode()
    while text:
        if text.startswith("\x1b[K"):
            lines[-1] = lines[-1][:column]
            text = text[3:]
            continue
        char, text = text[0], text[1:]
        if char == "\n":
            lines.append("")
            column = 0
        elif char == "\r":
            column = 0
        else:
            lines[-1] = lines[-1][:column] + char + lines[-1][column + 1 :]
            column += 1
    return lines


@pytest.fixture
def no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")


@pytest.mark.usefixtures("no_colour")
def test_a_progress_bar_stays_at_the_bottom_of_the_terminal() -> None:
    both: frozenset[StreamName] = frozenset({"stdout", "stderr"})
    shared = io.BytesIO()
    screen = Screen({"stdout": shared, "stderr": shared}, both, prefixed=True)
    bar, lines, other = (
        Channel(screen, 0, "stderr"),
        Channel(screen, 1, "stdout"),
        Channel(screen, 1, "stderr"),
    )
    bar.feed(b"\r 10%")
    assert terminal_after(shared.getvalue()) == ["[r0]  10%"]
    lines.feed(b"line of rank 1\n")
    other.feed(b"\r 5% of rank 1")
    assert terminal_after(shared.getvalue()) == ["[r1] line of rank 1", "[r0]  10%"]
    bar.feed(b"\r 2")
    bar.feed(b"0%")
    assert terminal_after(shared.getvalue())[-1] == "[r0]  20%"
    bar.feed(b"\r100%\n")
    other.feed(b"\r 9% of rank 1\n")
    assert terminal_after(shared.getvalue()) == ["[r1] line of rank 1", "[r0] 100%", "[r1]  9% of rank 1", ""]


@pytest.mark.usefixtures("no_colour")
def test_a_prompt_of_rank_0_shows_once_nothing_more_comes() -> None:
    screen, out, _ = make_screen(frozenset({"stdout"}))
    channel, other = Channel(screen, 0, "stdout"), Channel(screen, 1, "stdout")
    channel.feed(b"name? ")
    other.feed(b"not a prompt")
    assert terminal_after(out.getvalue()) == [""]
    channel.rest()
    other.rest()
    assert terminal_after(out.getvalue()) == ["[r0] name? "]
    channel.feed(b"thanks\n")
    assert terminal_after(out.getvalue()) == ["[r0] name? thanks", ""]


@pytest.mark.usefixtures("no_colour")
def test_a_bar_wider_than_the_terminal_is_cut_so_that_it_can_be_erased() -> None:
    screen, out, _ = make_screen(frozenset({"stdout"}))
    Channel(screen, 0, "stdout").feed(b"\r" + b"#" * 100)
    assert len(terminal_after(out.getvalue())[0]) == 39


def test_prefixes_have_colours_on_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen, _, _ = make_screen(frozenset({"stdout"}))
    assert screen.prefix(1, "stdout") == b"\x1b[33m[r1]\x1b[0m "
    assert screen.prefix(1, "stderr") == b"[r1] "
    assert screen.prefix_width(11) == len("[r10] ")


def test_a_text_file_takes_bytes() -> None:
    file = io.StringIO()
    sink = TextSink(file)
    sink.write("é\xff".encode("latin-1") + "é\n".encode())
    sink.flush()
    assert file.getvalue() == "\ufffd\ufffdé\n"

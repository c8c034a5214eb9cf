"""What the environment may say, and that nothing else passes in silence."""

from __future__ import annotations

import re

import pytest

from house.floors import ROOT
from shardwise.collectives.environment import Settings, read_seconds, read_settings, read_switch
from shardwise.errors import LaunchError

# What the launcher and its ranks tell each other; nobody else sets them.
INTERNAL = {
    "SHARDWISE_CONTROL",
    "SHARDWISE_CORES",
    "SHARDWISE_IMPORTING_MAIN",
    "SHARDWISE_LAUNCH_KEY",
    "SHARDWISE_PLACED",
    "SHARDWISE_SUPERVISED",
    "SHARDWISE_TERMINAL",
}
FOLDERS = ("backend", "tensor", "collectives", "mesh", "nn", "optim", "parallel", "launch")


def test_nothing_is_said() -> None:
    assert read_settings({}) == Settings(600.0, None, False, None)
    assert read_settings({"SHARDWISE_LOG": "comm"}) == Settings(600.0, None, False, None, True)
    assert read_settings({"SHARDWISE_TIMEOUT": "", "SHARDWISE_FLIGHT_DIR": ""}) == read_settings({})


def test_all_is_said() -> None:
    said = {
        "SHARDWISE_TIMEOUT": "2.5",
        "SHARDWISE_DETERMINISTIC": "by-rank-order",
        "SHARDWISE_DEBUG": "1",
        "SHARDWISE_FLIGHT_DIR": "/flights",
    }
    assert read_settings(said) == Settings(2.5, "by-rank-order", True, "/flights")


@pytest.mark.parametrize(("text", "on"), [("1", True), ("True", True), ("0", False), ("off", False)])
@pytest.mark.parametrize("default", [True, False])
def test_switches_are_on_or_off(text: str, on: bool, default: bool) -> None:
    assert read_switch("X", {"X": text}, default) is on
    assert read_switch("X", {"X": ""}, default) is default
    assert read_switch("X", {}, default) is default


@pytest.mark.parametrize("name", ["SHARDWISE_DEBUG", "SHARDWISE_SHARE_GPUS", "SHARDWISE_SHM"])
def test_a_switch_that_is_misspelt_is_told_of_before_the_world_is_made(name: str) -> None:
    with pytest.raises(LaunchError) as caught:
        read_settings({name: "none"})
    assert str(caught.value) == f"{name}='none'; wanted 1 or 0."


@pytest.mark.parametrize("text", ["soon", "-1", "0", "nan"])
def test_seconds_are_positive(text: str) -> None:
    with pytest.raises(LaunchError) as caught:
        read_seconds("SHARDWISE_TIMEOUT", {"SHARDWISE_TIMEOUT": text}, 1.0)
    assert str(caught.value) == f"SHARDWISE_TIMEOUT={text!r}; wanted a positive number of seconds."


def test_the_reference_has_every_variable() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    read = {name for file in files for name in re.findall(r"SHARDWISE_[A-Z_]*[A-Z]", file.read_text())}
    page = (ROOT / "docs" / "reference" / "environment.md").read_text()
    shown = set(re.findall(r"^\| `(SHARDWISE_[A-Z_]+)", page, re.MULTILINE))
    assert shown == read - INTERNAL
    assert read >= INTERNAL

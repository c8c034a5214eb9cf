"""The ops whose layouts follow other rules than letters: one line each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from shardwise.dtensor.rule.case import Rule
from shardwise.dtensor.rule.joining import cat_rule, pad_rule
from shardwise.dtensor.rule.slicing import slice_rule, split_rule, unindex_rule
from shardwise.dtensor.rule.turning import flip_rule, repeat_rule, roll_rule, tile_rule
from shardwise.tensor.function import Function
from shardwise.tensor.ops import index, joining, padding, repetition, view

__all__ = ["RULES"]

RULES: Mapping[type[Function], Rule] = MappingProxyType(
    {
        index.Slice: slice_rule,
        index.Unindex: unindex_rule,
        joining.Cat: cat_rule,
        padding.Pad: pad_rule,
        repetition.Flip: flip_rule,
        repetition.Repeat: repeat_rule,
        repetition.Roll: roll_rule,
        repetition.Tile: tile_rule,
        view.Split: split_rule,
    }
)
"""From ops to rules, which are asked before the letters: ``rule(case)`` gives a strategy, a play, or None."""

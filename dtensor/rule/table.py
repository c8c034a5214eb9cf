"""The ops that need more than their index signature: one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from shardwise.dtensor.rule.reshape import reshape_terms
from shardwise.tensor.function import Function
from shardwise.tensor.ops import view

__all__ = ["COMPOSITIONS", "TERMS"]

TERMS: Mapping[type[Function], Callable[..., Any]] = MappingProxyType(
    {view.Reshape: reshape_terms, view.CopiedReshape: reshape_terms}
)
"""Ops whose dims are told from shapes and layouts together: ``(shapes, params, layouts) -> Terms``."""

COMPOSITIONS: Mapping[type[Function], Callable[..., Any]] = MappingProxyType({})
"""Ops that are made of others, or talk inside, where a dim that they need whole lies in parts."""

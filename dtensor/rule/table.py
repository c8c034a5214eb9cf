"""The ops that need more than their index signature: one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from shardwise.dtensor.rule import extreme, loss, moment, norm, product, scan, softmax
from shardwise.dtensor.rule.formula import by_formula
from shardwise.dtensor.rule.reshape import reshape_terms
from shardwise.tensor.function import Function
from shardwise.tensor.ops import activation, reduce, statistics, view
from shardwise.tensor.ops import extreme as extreme_op
from shardwise.tensor.ops import loss as loss_op
from shardwise.tensor.ops import norm as norm_op
from shardwise.tensor.ops import scan as scan_op

__all__ = ["COMPOSITIONS", "TERMS"]

TERMS: Mapping[type[Function], Callable[..., Any]] = MappingProxyType(
    {
        norm_op.GroupNorm: norm.group_terms,
        view.Reshape: reshape_terms,
        view.CopiedReshape: reshape_terms,
    }
)
"""Ops whose dims are told from shapes and layouts together: ``(shapes, params, layouts) -> Terms``."""

_FORMULAS: Mapping[type[Function], tuple[Callable[..., Any], ...]] = {
    activation.Softmax: (softmax.softmax,),
    activation.LogSoftmax: (softmax.log_softmax,),
    statistics.LogSumExp: (softmax.logsumexp,),
    statistics.Var: (moment.var,),
    statistics.Std: (moment.std,),
    statistics.Norm: (norm.norm,),
    norm_op.LayerNorm: (norm.layer_norm,),
    norm_op.RMSNorm: (norm.rms_norm,),
    norm_op.BatchNorm: (norm.batch_norm,),
    norm_op.GroupNorm: (norm.group_norm, norm.group_norm_backward),
    extreme_op.Amax: (extreme.extreme(extreme_op.Amax, "amax"),),
    extreme_op.Amin: (extreme.extreme(extreme_op.Amin, "amin"),),
    extreme_op.Argmax: (extreme.argument("argmax", 1), extreme.no_gradient),
    extreme_op.Argmin: (extreme.argument("argmin", -1), extreme.no_gradient),
    extreme_op.Max: (extreme.chosen("max", 1), extreme.placed_where_it_was),
    extreme_op.Min: (extreme.chosen("min", -1), extreme.placed_where_it_was),
}
"""Ops with a forward of their own, whose backward is their formula on sharded tensors, or another."""

COMPOSITIONS: Mapping[type[Function], Callable[..., Any]] = MappingProxyType(
    {
        **{function: by_formula(function, *forms) for function, forms in _FORMULAS.items()},
        reduce.Prod: product.product,
        scan_op.Cumsum: scan.cumsum,
        scan_op.Cumprod: scan.cumprod,
        scan_op.LogCumsumExp: scan.logcumsumexp,
        scan_op.Cummax: scan.running_extreme(scan_op.Cummax),
        scan_op.Cummin: scan.running_extreme(scan_op.Cummin),
        loss_op.CrossEntropy: loss.cross_entropy,
        loss_op.WeightedCrossEntropy: loss.weighted_cross_entropy,
        loss_op.SoftCrossEntropy: loss.soft_cross_entropy,
        loss_op.NegativeLikelihood: loss.negative_likelihood,
    }
)
"""Ops that are made of others, or talk inside, where a dim that they need whole lies in parts."""

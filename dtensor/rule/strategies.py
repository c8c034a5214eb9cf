"""The ops whose layouts follow other rules than letters: one line each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from shardwise.dtensor.rule.case import Rule
from shardwise.dtensor.rule.diagonal import diagonal_rule, trace_rule, undiagonal_rule
from shardwise.dtensor.rule.halo import Halo, HaloSum, halo_rule
from shardwise.dtensor.rule.indexing import index_rule, put_rule
from shardwise.dtensor.rule.joining import cat_rule, pad_rule
from shardwise.dtensor.rule.lookup import embedding_rule, gather_rule, select_rule
from shardwise.dtensor.rule.mask import nonzero_rule
from shardwise.dtensor.rule.ordering import distinct_rule, sort_rule, topk_rule
from shardwise.dtensor.rule.ranking import bincount_rule, kth_rule
from shardwise.dtensor.rule.regrouping import reshape_rule
from shardwise.dtensor.rule.slicing import slice_rule, split_rule, unindex_rule
from shardwise.dtensor.rule.turning import flip_rule, repeat_rule, roll_rule, tile_rule
from shardwise.dtensor.rule.window import convolution_rule, pooling_rule
from shardwise.dtensor.rule.writing import scatter_rule
from shardwise.tensor.function import Function
from shardwise.tensor.ops import (
    convolution,
    embedding,
    gather,
    index,
    joining,
    order,
    padding,
    pooling,
    reduce,
    repetition,
    scatter_reduce,
    search,
    selection,
    take,
    triangle,
    view,
)

__all__ = ["RULES"]

RULES: Mapping[type[Function], Rule] = MappingProxyType(
    {
        Halo: halo_rule,
        HaloSum: halo_rule,
        convolution.Convolution: convolution_rule,
        embedding.WeighedEmbedding: embedding_rule,
        gather.Gather: gather_rule,
        gather.Scatter: scatter_rule,
        gather.ScatterAdd: scatter_rule,
        index.Embedding: embedding_rule,
        index.Index: index_rule,
        index.IndexAdd: put_rule,
        index.IndexPut: put_rule,
        index.Slice: slice_rule,
        index.Unindex: unindex_rule,
        joining.Cat: cat_rule,
        order.Argsort: sort_rule,
        order.Sort: sort_rule,
        order.TopK: topk_rule,
        padding.Pad: pad_rule,
        pooling.AveragePool: pooling_rule,
        pooling.MaxPool: pooling_rule,
        reduce.Trace: trace_rule,
        repetition.Flip: flip_rule,
        repetition.Repeat: repeat_rule,
        repetition.Roll: roll_rule,
        repetition.Tile: tile_rule,
        scatter_reduce.ScatterReduce: scatter_rule,
        selection.KthValue: kth_rule,
        selection.MedianAlong: kth_rule,
        take.IndexCopy: scatter_rule,
        take.IndexSelect: select_rule,
        search.Bincount: bincount_rule,
        search.Distinct: distinct_rule,
        search.Nonzero: nonzero_rule,
        triangle.Diagonal: diagonal_rule,
        triangle.Undiagonal: undiagonal_rule,
        view.CopiedReshape: reshape_rule,
        view.Reshape: reshape_rule,
        view.Split: split_rule,
    }
)
"""From ops to rules, which are asked before the letters: ``rule(case)`` gives a strategy, a play, or None."""

"""Tiles of a convolution whose sums stay in vector registers, as functions for compiled loops.

numba keeps arrays in memory, and LLVM does not find these loops by itself, so their instructions are written
down: of each element that is read, as many products are made as there are registers for their sums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import llvmlite.binding
import numba
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["OUTPUTS", "TAPS", "VECTOR_BYTES", "WEIGHT_OUTPUTS", "add_tile", "weight_tile"]

# Registers of 64 bytes are 32, smaller ones 16.
_WIDE = bool(llvmlite.binding.get_host_cpu_features().get("avx512f", False))
VECTOR_BYTES = 64 if _WIDE else 32
OUTPUTS = 8 if _WIDE else 4
"""Channels of the result in a tile of two vectors of places."""
WEIGHT_OUTPUTS, TAPS = (4, 3) if _WIDE else (3, 3)
"""Channels of the result, and neighbouring weights, whose gradients are summed at a time."""

_INDEX = ir.IntType(64)


class _Vector(NamedTuple):
    """What is done with vectors of one element type."""

    builder: Any
    real: Any
    itemsize: int

    @property
    def lanes(self) -> int:
        return VECTOR_BYTES // self.itemsize

    @property
    def kind(self) -> Any:
        return ir.VectorType(self.real, self.lanes)

    def nothing(self) -> Any:
        """Room for a vector of zeros, which becomes a register."""
        zeros = ir.Constant(self.kind, [ir.Constant(self.real, 0.0)] * self.lanes)
        room = cgutils.alloca_once(self.builder, self.kind)
        self.builder.store(zeros, room)
        return room

    def place(self, data: Any, at: Any, more: int = 0) -> Any:
        where = self.builder.add(at, ir.Constant(_INDEX, more)) if more else at
        return self.builder.gep(data, [where])

    def load(self, data: Any, at: Any, more: int = 0) -> Any:
        pointer = self.builder.bitcast(self.place(data, at, more), self.kind.as_pointer())
        loaded = self.builder.load(pointer)
        loaded.align = self.itemsize
        return loaded

    def store(self, value: Any, data: Any, at: Any, more: int = 0) -> None:
        pointer = self.builder.bitcast(self.place(data, at, more), self.kind.as_pointer())
        self.builder.store(value, pointer).align = self.itemsize

    def everywhere(self, number: Any) -> Any:
        """A vector of one number."""
        undefined, first = ir.Constant(self.kind, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        one = self.builder.insert_element(undefined, number, first)
        mask = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [first] * self.lanes)
        return self.builder.shuffle_vector(one, undefined, mask)

    def beginning(self, vector: Any, count: Any) -> Any:
        """The first elements of a vector, and zeros in place of the others, which may be NaN."""
        lanes = ir.VectorType(_INDEX, self.lanes)
        undefined, first = ir.Constant(lanes, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        one = self.builder.insert_element(undefined, count, first)
        mask = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [first] * self.lanes)
        counts = self.builder.shuffle_vector(one, undefined, mask)
        taken = self.builder.icmp_signed("<", ir.Constant(lanes, list(range(self.lanes))), counts)
        zeros = ir.Constant(self.kind, [ir.Constant(self.real, 0.0)] * self.lanes)
        return self.builder.select(taken, vector, zeros)

    def add_product(self, a: Any, b: Any, room: Any) -> None:
        name = f"llvm.fma.v{self.lanes}f{8 * self.itemsize}"
        kind = ir.FunctionType(self.kind, [self.kind] * 3)
        fused = cgutils.get_or_insert_function(self.builder.module, kind, name)
        self.builder.store(self.builder.call(fused, [a, b, self.builder.load(room)]), room)

    def total(self, vector: Any) -> Any:
        """The sum of the elements."""
        lanes = self.lanes
        while lanes > 1:  # half and half
            lanes //= 2
            halves = [
                ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(start, start + lanes)))
                for start in (0, lanes)
            ]
            low, high = (self.builder.shuffle_vector(vector, vector, half) for half in halves)
            vector = self.builder.fadd(low, high)
        return self.builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


def _vector(context: Any, builder: Any, array: Any) -> _Vector:
    return _Vector(builder, context.get_value_type(array.dtype), array.dtype.bitwidth // 8)


def _data(context: Any, builder: Any, signature: Any, arguments: Any, at: int) -> Any:
    return context.make_array(signature.args[at])(context, builder, arguments[at]).data


def _add_tile(
    typing: Any, x: Any, start: Any, channel: Any, row: Any, channels: Any, height: Any, width: Any,
    weight: Any, first: Any, out: Any, target: Any, output: Any,
) -> Any:  # fmt: skip
    """Write a tile: `OUTPUTS` channels of two vectors of neighbouring places.

    `x` is read from `start` on, whose channels are `channel` elements apart, and rows `row`; `weight` from
    `first` on, in the order (channels, height, width, outputs). `out` is written from `target` on, whose
    channels are `output` elements apart.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = _vector(context, builder, signature.args[0])
        source, factors, result = (_data(context, builder, signature, arguments, at) for at in (0, 7, 9))
        _, begin, apart, below, many, high, broad, _, factor, _, goal, between = arguments
        sums = [(vector.nothing(), vector.nothing()) for _ in range(OUTPUTS)]
        here = cgutils.alloca_once(builder, _INDEX)
        builder.store(factor, here)
        with cgutils.for_range(builder, many, intp=_INDEX) as over_channels:
            plane = builder.add(begin, builder.mul(over_channels.index, apart))
            with cgutils.for_range(builder, high, intp=_INDEX) as over_rows:
                line = builder.add(plane, builder.mul(over_rows.index, below))
                with cgutils.for_range(builder, broad, intp=_INDEX) as over_places:
                    place = builder.add(line, over_places.index)
                    seen = [vector.load(source, place), vector.load(source, place, vector.lanes)]
                    at = builder.load(here)
                    for k, pair in enumerate(sums):
                        scale = vector.everywhere(builder.load(vector.place(factors, at, k)))
                        for part, room in zip(seen, pair, strict=True):
                            vector.add_product(scale, part, room)
                    builder.store(builder.add(at, ir.Constant(_INDEX, OUTPUTS)), here)
        for k, pair in enumerate(sums):
            at = builder.add(goal, builder.mul(ir.Constant(_INDEX, k), between))
            for part, room in enumerate(pair):
                vector.store(builder.load(room), result, at, part * vector.lanes)
        return context.get_dummy_value()

    kinds = (x, start, channel, row, channels, height, width, weight, first, out, target, output)
    return numba.types.void(*kinds), generate


def _weight_tile(
    typing: Any, g: Any, start: Any, output: Any, row: Any, x: Any, place: Any, line: Any, rows: Any,
    vectors: Any, rest: Any, sums: Any,
) -> Any:  # fmt: skip
    """Write the sums of products of some outputs' gradients with what `TAPS` neighbouring weights saw.

    `g` is read from `start` on, whose channels are `output` elements apart, and rows `row`; `x` from `place`
    on, whose rows are `line` apart. There are that many `rows`, of that many `vectors` and a `rest` of single
    places, behind which other things may lie. `sums` has ``WEIGHT_OUTPUTS * TAPS`` elements.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = _vector(context, builder, signature.args[0])
        gradients, source, result = (_data(context, builder, signature, arguments, at) for at in (0, 4, 10))
        _, begin, between, below, _, first, under, many, broad, rest_, _ = arguments
        totals = [[vector.nothing() for _ in range(TAPS)] for _ in range(WEIGHT_OUTPUTS)]
        with cgutils.for_range(builder, many, intp=_INDEX) as over_rows:
            here = builder.add(begin, builder.mul(over_rows.index, below))
            there = builder.add(first, builder.mul(over_rows.index, under))

            def add_products(number: Any, count: Any, here: Any = here, there: Any = there) -> None:
                step = builder.mul(number, ir.Constant(_INDEX, vector.lanes))
                seen = [vector.load(source, builder.add(there, step), tap) for tap in range(TAPS)]
                if count is not None:
                    seen = [vector.beginning(part, count) for part in seen]
                for k, row_of in enumerate(totals):
                    at = builder.add(here, builder.mul(ir.Constant(_INDEX, k), between))
                    given = vector.load(gradients, builder.add(at, step))
                    for part, room in zip(seen, row_of, strict=True):
                        vector.add_product(given, part, room)

            with cgutils.for_range(builder, broad, intp=_INDEX) as over_vectors:
                add_products(over_vectors.index, None)
            with builder.if_then(builder.icmp_signed(">", rest_, ir.Constant(_INDEX, 0))):
                add_products(broad, rest_)
        for number, room in enumerate(room for row_of in totals for room in row_of):
            total = vector.total(builder.load(room))
            builder.store(total, builder.gep(result, [ir.Constant(_INDEX, number)]))
        return context.get_dummy_value()

    kinds = (g, start, output, row, x, place, line, rows, vectors, rest, sums)
    return numba.types.void(*kinds), generate


add_tile, weight_tile = intrinsic(_add_tile), intrinsic(_weight_tile)

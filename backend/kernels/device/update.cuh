// Updates of many parameters in one launch; `update`, COLUMNS and NUMBERS are made of a formula.
//
// The table holds, one after the other: the addresses of every parameter, its gradient and its state; sizes;
// which row of numbers each takes; the pieces, each a parameter and the place where the piece begins; the rows
// of numbers, as bits of doubles.
#pragma once
#include "device/formula.cuh"
#include "update_formula.cuh"

KERNEL(256) update_each(const int64* __restrict__ table, int64 params, int64 pieces, int64 length)
{
    const int64 *places = table, *sizes = places + params * COLUMNS, *rows = sizes + params;
    const int64 *piece = rows + params, *numbers = piece + 2 * pieces;
    for (int64 p = blockIdx.x; p < pieces; p += gridDim.x) {
        int64 param = piece[2 * p], start = piece[2 * p + 1];
        int64 n = sizes[param] - start < length ? sizes[param] - start : length;
        real* at[COLUMNS];
        bool packed = true;
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            at[c] = reinterpret_cast<real*>(places[param * COLUMNS + c]) + start;
            packed = packed && aligned(at[c]);
        }
        wide row[NUMBERS];
#pragma unroll
        for (int k = 0; k < NUMBERS; ++k) row[k] = (wide)__longlong_as_double(numbers[rows[param] * NUMBERS + k]);
        sweep(n, threadIdx.x, blockDim.x, packed, [&](int64 i, auto count) {
            decltype(load(at[0], count)) values[COLUMNS];
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) values[c] = load(at[c] + i, count);
#pragma unroll
            for (int k = 0; k < count; ++k) {
                wide given[COLUMNS], result[COLUMNS - 1];
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c) given[c] = values[c].at[k];
                update(result, given, row);
                values[0].at[k] = result[0];
#pragma unroll
                for (int c = 2; c < COLUMNS; ++c) values[c].at[k] = result[c - 1];
            }
            store(at[0] + i, values[0]);
#pragma unroll
            for (int c = 2; c < COLUMNS; ++c) store(at[c] + i, values[c]);
        });
    }
}

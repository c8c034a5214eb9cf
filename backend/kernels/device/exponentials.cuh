// The largest element of a row, and the sum of the exponentials of the others beside it, in one pass.
#pragma once
#include "device/team.cuh"

struct Exponentials { wide top, total; };  // total is the sum of exp(x - top)

__device__ inline Exponentials across(Exponentials e, int bit)
{
    return {across(e.top, bit), across(e.total, bit)};
}
__device__ inline Exponentials of_first(Exponentials e, int width)
{
    return {of_first(e.top, width), of_first(e.total, width)};
}

__device__ inline Exponentials together(Exponentials x, Exponentials y)
{
    wide top = x.top < y.top ? y.top : x.top;
    wide shift = top == -infinity() ? (wide)0 : top;  // -inf - -inf would be NaN
    return {top, x.total * exp(x.top - shift) + y.total * exp(y.top - shift)};
}

// For a row with NaN, with +inf, or of -inf alone, the total is NaN. (M. Milakov, N. Gimelshein, "Online
// normalizer calculation for softmax", arXiv:1805.02867; the sum is scaled down when a larger element comes.)
__device__ inline Exponentials exponentials(const real* row, int64 columns, bool packed)
{
    Exponentials e = {-infinity(), 0};
    each_in_row(columns, packed, [&](int64 j, auto count) {
        auto v = load(row + j, count);
        wide top = e.top;
#pragma unroll
        for (int k = 0; k < count; ++k) top = v.at[k] > top ? v.at[k] : top;
        if (top > e.top) e = {top, e.total * exp(e.top - top)};
        wide shift = e.top == -infinity() ? (wide)0 : e.top;
#pragma unroll
        for (int k = 0; k < count; ++k) e.total += exp(v.at[k] - shift);
    });
    e = over_team(e, [](Exponentials x, Exponentials y) { return together(x, y); });
    if (e.top == -infinity()) e.total = not_a_number();
    return e;
}

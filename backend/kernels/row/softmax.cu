// Softmax and its logarithm over rows; the formulas are in softmax.py.
#include "device/exponentials.cuh"

KERNEL(1024) softmax_forward(const real* __restrict__ x, real* __restrict__ y, int64 rows, int64 columns)
{
    bool packed = aligned_rows(columns, x, y);
    each_row(rows, [&](int64 i, bool mine) {
        const real* row = x + i * columns;
        Exponentials e = exponentials(row, columns, packed);
        wide share = (wide)1 / e.total;
        each_in_row(mine ? columns : 0, packed, [&](int64 j, auto count) {
            auto v = load(row + j, count);
#pragma unroll
            for (int k = 0; k < count; ++k) v.at[k] = exp(v.at[k] - e.top) * share;
            store(y + i * columns + j, v);
        });
    });
}

KERNEL(1024)
softmax_backward(const real* __restrict__ g, const real* __restrict__ y, real* __restrict__ dx, int64 rows,
                 int64 columns)
{
    bool packed = aligned_rows(columns, g, y, dx);
    each_row(rows, [&](int64 i, bool mine) {
        int64 start = i * columns;
        wide along = 0;
        each_in_row(columns, packed, [&](int64 j, auto count) {
            auto a = load(g + start + j, count), b = load(y + start + j, count);
#pragma unroll
            for (int k = 0; k < count; ++k) along += a.at[k] * b.at[k];
        });
        along = sum_over_team(along);
        each_in_row(mine ? columns : 0, packed, [&](int64 j, auto count) {
            auto a = load(g + start + j, count), b = load(y + start + j, count);
#pragma unroll
            for (int k = 0; k < count; ++k) a.at[k] = b.at[k] * (a.at[k] - along);
            store(dx + start + j, a);
        });
    });
}

KERNEL(1024) log_softmax_forward(const real* __restrict__ x, real* __restrict__ y, int64 rows, int64 columns)
{
    bool packed = aligned_rows(columns, x, y);
    each_row(rows, [&](int64 i, bool mine) {
        const real* row = x + i * columns;
        Exponentials e = exponentials(row, columns, packed);
        wide logarithm = log(e.total);
        each_in_row(mine ? columns : 0, packed, [&](int64 j, auto count) {
            auto v = load(row + j, count);
            // In this order: beside large elements, top + logarithm would lose the logarithm.
#pragma unroll
            for (int k = 0; k < count; ++k) v.at[k] = (v.at[k] - e.top) - logarithm;
            store(y + i * columns + j, v);
        });
    });
}

KERNEL(1024)
log_softmax_backward(const real* __restrict__ g, const real* __restrict__ y, real* __restrict__ dx, int64 rows,
                     int64 columns)
{
    bool packed = aligned_rows(columns, g, y, dx);
    each_row(rows, [&](int64 i, bool mine) {
        int64 start = i * columns;
        wide total = 0;
        each_in_row(columns, packed, [&](int64 j, auto count) {
            auto a = load(g + start + j, count);
#pragma unroll
            for (int k = 0; k < count; ++k) total += a.at[k];
        });
        total = sum_over_team(total);
        each_in_row(mine ? columns : 0, packed, [&](int64 j, auto count) {
            auto a = load(g + start + j, count), b = load(y + start + j, count);
#pragma unroll
            for (int k = 0; k < count; ++k) a.at[k] -= exp(b.at[k]) * total;
            store(dx + start + j, a);
        });
    });
}

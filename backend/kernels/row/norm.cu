// Layer norm and division by the root mean square, over rows; the formulas are in norm.py and rms_norm.py.
#include "device/columns.cuh"

// The mean of a row, and the mean of squares beside it.
__device__ inline Pair moments(const real* row, int64 columns, bool packed)
{
    wide total = 0, share = (wide)1 / columns;
    each_in_row(columns, packed, [&](int64 j, auto count) {
        auto v = load(row + j, count);
#pragma unroll
        for (int k = 0; k < count; ++k) total += v.at[k];
    });
    wide mean = sum_over_team(total) * share;
    total = 0;
    each_in_row(columns, packed, [&](int64 j, auto count) {
        auto v = load(row + j, count);
#pragma unroll
        for (int k = 0; k < count; ++k) total += (v.at[k] - mean) * (v.at[k] - mean);
    });
    return {mean, sum_over_team(total) * share};
}

KERNEL(1024)
layer_norm_forward(const real* __restrict__ x, const real* __restrict__ weight, const real* __restrict__ bias,
                   double eps, real* __restrict__ y, wide* __restrict__ mean, wide* __restrict__ rstd, int64 rows,
                   int64 columns)
{
    bool packed = aligned_rows(columns, x, y, weight, bias);
    each_row(rows, [&](int64 i, bool mine) {
        const real* row = x + i * columns;
        Pair m = moments(row, columns, packed);
        wide scale = (wide)1 / sqrt(m.b + (wide)eps);
        each_in_row(mine ? columns : 0, packed, [&](int64 j, auto count) {
            auto v = load(row + j, count);
#pragma unroll
            for (int k = 0; k < count; ++k) v.at[k] = (v.at[k] - m.a) * scale;
            if (weight) {
                auto w = load(weight + j, count);
#pragma unroll
                for (int k = 0; k < count; ++k) v.at[k] *= w.at[k];
            }
            if (bias) {
                auto b = load(bias + j, count);
#pragma unroll
                for (int k = 0; k < count; ++k) v.at[k] += b.at[k];
            }
            store(y + i * columns + j, v);
        });
        if (mine && threadIdx.x == 0) mean[i] = m.a, rstd[i] = scale;
    });
}

KERNEL(1024)
layer_norm_statistics(const real* __restrict__ x, double eps, wide* __restrict__ mean, wide* __restrict__ rstd,
                      int64 rows, int64 columns)
{
    bool packed = aligned_rows(columns, x);
    each_row(rows, [&](int64 i, bool mine) {
        Pair m = moments(x + i * columns, columns, packed);
        if (mine && threadIdx.x == 0) mean[i] = m.a, rstd[i] = (wide)1 / sqrt(m.b + (wide)eps);
    });
}

KERNEL(1024)
layer_norm_backward(const real* __restrict__ g, const real* __restrict__ x, const real* __restrict__ weight,
                    const wide* __restrict__ mean, const wide* __restrict__ rstd, real* __restrict__ dx, int64 rows,
                    int64 columns)
{
    bool packed = aligned_rows(columns, g, x, weight, dx);
    each_row(rows, [&](int64 i, bool mine) {
        int64 start = i * columns;
        wide centre = mean[i], scale = rstd[i];
        // The gradient beside the weight, and the normalised input.
        auto terms = [&](int64 j, auto count, auto use) {
            auto a = load(g + start + j, count), v = load(x + start + j, count);
            if (weight) {
                auto w = load(weight + j, count);
#pragma unroll
                for (int k = 0; k < count; ++k) a.at[k] *= w.at[k];
            }
#pragma unroll
            for (int k = 0; k < count; ++k) a.at[k] = use(a.at[k], (v.at[k] - centre) * scale);
            return a;
        };
        Pair total = {0, 0};
        each_in_row(columns, packed, [&](int64 j, auto count) {
            terms(j, count, [&](wide a, wide normal) {
                total = total + Pair{a, a * normal};
                return a;
            });
        });
        total = sum_over_team(total);
        wide plain = total.a / columns, along = total.b / columns;
        each_in_row(mine ? columns : 0, packed, [&](int64 j, auto count) {
            store(dx + start + j,
                  terms(j, count, [&](wide a, wide normal) { return (a - plain - normal * along) * scale; }));
        });
    });
}

// Per column, sums over ROWS rows of the gradient times the normalised input, and of the gradient alone.
KERNEL(256)
layer_norm_parameters(const real* __restrict__ g, const real* __restrict__ x, const wide* __restrict__ mean,
                      const wide* __restrict__ rstd, wide* __restrict__ sums, int64 rows, int64 columns)
{
    sum_rows(rows, columns, reinterpret_cast<Pair*>(sums), [&](int64 i, int64 j) {
        wide gradient = widen(g[i * columns + j]);
        return Pair{gradient * ((widen(x[i * columns + j]) - mean[i]) * rstd[i]), gradient};
    });
}

// ---- by the root mean square

__device__ inline wide mean_square(const real* row, int64 columns, bool packed)
{
    wide total = 0;
    each_in_row(columns, packed, [&](int64 j, auto count) {
        auto v = load(row + j, count);
#pragma unroll
        for (int k = 0; k < count; ++k) total += v.at[k] * v.at[k];
    });
    return sum_over_team(total) / columns;
}

KERNEL(1024)
rms_norm_forward(const real* __restrict__ x, const real* __restrict__ weight, double eps, real* __restrict__ y,
                 wide* __restrict__ scale, int64 rows, int64 columns)
{
    bool packed = aligned_rows(columns, x, y, weight);
    each_row(rows, [&](int64 i, bool mine) {
        const real* row = x + i * columns;
        wide factor = (wide)1 / sqrt(mean_square(row, columns, packed) + (wide)eps);
        each_in_row(mine ? columns : 0, packed, [&](int64 j, auto count) {
            auto v = load(row + j, count);
#pragma unroll
            for (int k = 0; k < count; ++k) v.at[k] *= factor;
            if (weight) {
                auto w = load(weight + j, count);
#pragma unroll
                for (int k = 0; k < count; ++k) v.at[k] *= w.at[k];
            }
            store(y + i * columns + j, v);
        });
        if (mine && threadIdx.x == 0) scale[i] = factor;
    });
}

KERNEL(1024)
rms_norm_statistics(const real* __restrict__ x, double eps, wide* __restrict__ scale, int64 rows, int64 columns)
{
    bool packed = aligned_rows(columns, x);
    each_row(rows, [&](int64 i, bool mine) {
        wide square = mean_square(x + i * columns, columns, packed);
        if (mine && threadIdx.x == 0) scale[i] = (wide)1 / sqrt(square + (wide)eps);
    });
}

KERNEL(1024)
rms_norm_backward(const real* __restrict__ g, const real* __restrict__ x, const real* __restrict__ weight,
                  const wide* __restrict__ scale, real* __restrict__ dx, int64 rows, int64 columns)
{
    bool packed = aligned_rows(columns, g, x, weight, dx);
    each_row(rows, [&](int64 i, bool mine) {
        int64 start = i * columns;
        wide factor = scale[i];
        auto terms = [&](int64 j, auto count, auto use) {
            auto a = load(g + start + j, count), v = load(x + start + j, count);
            if (weight) {
                auto w = load(weight + j, count);
#pragma unroll
                for (int k = 0; k < count; ++k) a.at[k] *= w.at[k];
            }
#pragma unroll
            for (int k = 0; k < count; ++k) a.at[k] = use(a.at[k], v.at[k] * factor);
            return a;
        };
        wide along = 0;
        each_in_row(columns, packed, [&](int64 j, auto count) {
            terms(j, count, [&](wide a, wide normal) { return along += a * normal; });
        });
        along = sum_over_team(along) / columns;
        each_in_row(mine ? columns : 0, packed, [&](int64 j, auto count) {
            store(dx + start + j, terms(j, count, [&](wide a, wide normal) { return (a - normal * along) * factor; }));
        });
    });
}

KERNEL(256)
rms_norm_parameters(const real* __restrict__ g, const real* __restrict__ x, const wide* __restrict__ scale,
                    wide* __restrict__ sums, int64 rows, int64 columns)
{
    sum_rows(rows, columns, sums,
             [&](int64 i, int64 j) { return widen(g[i * columns + j]) * (widen(x[i * columns + j]) * scale[i]); });
}

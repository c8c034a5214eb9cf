// Batch norm and group norm of (batch, channels, places); the formulas are in batch_norm.py and group_norm.py.
//
// A plane is all places of one channel of one sample: a row. Its statistics are those of its channel if
// `channels` is not 0, number plane % channels, else those of its group, number plane / group.
#include "device/team.cuh"

__device__ inline int64 statistic(int64 plane, int64 channels, int64 group)
{
    return channels ? plane % channels : quotient(plane, group);
}

KERNEL(1024) plane_sums(const real* __restrict__ x, wide* __restrict__ sums, int64 planes, int64 places)
{
    bool packed = aligned_rows(places, x);
    each_row(planes, [&](int64 plane, bool mine) {
        wide total = 0;
        each_in_row(places, packed, [&](int64 p, auto count) {
            auto v = load(x + plane * places + p, count);
#pragma unroll
            for (int k = 0; k < count; ++k) total += v.at[k];
        });
        total = sum_over_team(total);
        if (mine && threadIdx.x == 0) sums[plane] = total;
    });
}

// Of squares beside the mean.
KERNEL(1024)
plane_squares(const real* __restrict__ x, const wide* __restrict__ mean, int64 channels, int64 group,
              wide* __restrict__ sums, int64 planes, int64 places)
{
    bool packed = aligned_rows(places, x);
    each_row(planes, [&](int64 plane, bool mine) {
        wide centre = mean[statistic(plane, channels, group)], total = 0;
        each_in_row(places, packed, [&](int64 p, auto count) {
            auto v = load(x + plane * places + p, count);
#pragma unroll
            for (int k = 0; k < count; ++k) total += (v.at[k] - centre) * (v.at[k] - centre);
        });
        total = sum_over_team(total);
        if (mine && threadIdx.x == 0) sums[plane] = total;
    });
}

// Of the gradient times the normalised input, and of the gradient alone: two sums per plane.
KERNEL(1024)
plane_products(const real* __restrict__ g, const real* __restrict__ x, const wide* __restrict__ mean,
               const wide* __restrict__ variance, double eps, int64 channels, int64 group, wide* __restrict__ sums,
               int64 planes, int64 places)
{
    bool packed = aligned_rows(places, g, x);
    each_row(planes, [&](int64 plane, bool mine) {
        int64 s = statistic(plane, channels, group);
        wide centre = mean[s], scale = (wide)1 / sqrt(variance[s] + (wide)eps);
        Pair total = {0, 0};
        each_in_row(places, packed, [&](int64 p, auto count) {
            auto a = load(g + plane * places + p, count), v = load(x + plane * places + p, count);
#pragma unroll
            for (int k = 0; k < count; ++k)
                total = total + Pair{a.at[k] * ((v.at[k] - centre) * scale), a.at[k]};
        });
        total = sum_over_team(total);
        if (mine && threadIdx.x == 0) sums[2 * plane] = total.a, sums[2 * plane + 1] = total.b;
    });
}

KERNEL(256)
normalize_planes(const real* __restrict__ x, const wide* __restrict__ mean, const wide* __restrict__ variance,
                 double eps, const real* __restrict__ weight, const real* __restrict__ bias, int64 channels,
                 int64 per_channel, int64 group, real* __restrict__ y, int64 n, int64 places)
{
    // 16 bytes at a time, all of one plane.
    sweep_all(n, aligned_rows(places, x, y), [&](int64 i, auto count) {
        int64 plane = quotient(i, places), s = statistic(plane, per_channel, group), c = plane % channels;
        wide centre = mean[s], scale = (wide)1 / sqrt(variance[s] + (wide)eps);
        wide w = weight ? widen(weight[c]) : (wide)1, b = bias ? widen(bias[c]) : (wide)0;
        auto v = load(x + i, count);
#pragma unroll
        for (int k = 0; k < count; ++k) v.at[k] = (v.at[k] - centre) * scale * w + b;
        store(y + i, v);
    });
}

// `plain` and `along` are, per statistic, the means of the weighted gradient and of its product with the
// normalised input.
KERNEL(256)
normalize_planes_backward(const real* __restrict__ g, const real* __restrict__ x, const wide* __restrict__ mean,
                          const wide* __restrict__ variance, double eps, const real* __restrict__ weight,
                          const wide* __restrict__ plain, const wide* __restrict__ along, int64 channels,
                          int64 per_channel, int64 group, real* __restrict__ dx, int64 n, int64 places)
{
    sweep_all(n, aligned_rows(places, g, x, dx), [&](int64 i, auto count) {
        int64 plane = quotient(i, places), s = statistic(plane, per_channel, group);
        wide centre = mean[s], scale = (wide)1 / sqrt(variance[s] + (wide)eps), p = plain[s], l = along[s];
        wide w = weight ? widen(weight[plane % channels]) : (wide)1;
        auto a = load(g + i, count), v = load(x + i, count);
#pragma unroll
        for (int k = 0; k < count; ++k)
            a.at[k] = (a.at[k] * w - p - (v.at[k] - centre) * scale * l) * scale;
        store(dx + i, a);
    });
}

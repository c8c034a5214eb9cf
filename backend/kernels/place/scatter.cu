// Taking and adding elements and slices at indices; the formulas are in gather.py, scatter.py, embedding.py
// and resampling.py.
//
// Where indices repeat, sums are added up in the order in which threads come, so that their last bits may
// differ from run to run. They have the wide type: there is no atomic addition of 16 bits on all devices.
#include "device/device.cuh"

// x: (outer, size, inner), index and out: (outer, n, inner).
KERNEL(256)
gather_along(const real* __restrict__ x, const int64* __restrict__ index, real* __restrict__ out, int64 size, int64 n,
             int64 inner, int64 total)
{
    sweep_all(total, false, [&](int64 i, auto) {
        int64 row = quotient(i, inner), o = quotient(row, n);
        out[i] = x[(o * size + wrapped(index[i], size)) * inner + (i - row * inner)];
    });
}

// The adjoint: g and index: (outer, n, inner), out: (outer, size, inner).
KERNEL(256)
scatter_along(const real* __restrict__ g, const int64* __restrict__ index, wide* out, int64 size, int64 n, int64 inner,
              int64 total)
{
    sweep_all(total, false, [&](int64 i, auto) {
        int64 row = quotient(i, inner), o = quotient(row, n);
        atomicAdd(out + (o * size + wrapped(index[i], size)) * inner + (i - row * inner), widen(g[i]));
    });
}

// g: (outer, n, inner), index: (n,), out: (outer, size, inner). A block goes along inner, so that the
// additions of a warp fall on neighbours.
KERNEL(256)
scatter_rows(const real* __restrict__ g, const int64* __restrict__ index, wide* out, int64 size, int64 n, int64 inner,
             int64 total)
{
    sweep_all(total, aligned(g) && inner % PACK == 0, [&](int64 i, auto count) {
        int64 row = quotient(i, inner), o = quotient(row, n);
        wide* place = out + (o * size + wrapped(index[row - o * n], size)) * inner + (i - row * inner);
        auto v = load(g + i, count);
#pragma unroll
        for (int k = 0; k < count; ++k) atomicAdd(place + k, v.at[k]);
    });
}

// ---- weighted sums of a few slices: x: (outer, size, inner), index and weight: (taps, n)

KERNEL(256)
resample_forward(const real* __restrict__ x, const int64* __restrict__ index, const real* __restrict__ weight,
                 real* __restrict__ out, int64 taps, int64 size, int64 n, int64 inner, int64 total)
{
    sweep_all(total, false, [&](int64 i, auto) {
        int64 row = quotient(i, inner), o = quotient(row, n), m = row - o * n;
        wide sum = 0;
        for (int64 tap = 0; tap < taps; ++tap) {
            int64 place = wrapped(index[tap * n + m], size);
            sum += widen(x[(o * size + place) * inner + (i - row * inner)]) * widen(weight[tap * n + m]);
        }
        out[i] = Rounding<real>::of(sum);
    });
}

KERNEL(256)
resample_backward(const real* __restrict__ g, const int64* __restrict__ index, const real* __restrict__ weight, wide* dx,
                  int64 taps, int64 size, int64 n, int64 inner, int64 total)
{
    sweep_all(total, false, [&](int64 i, auto) {
        int64 row = quotient(i, inner), o = quotient(row, n), m = row - o * n;
        wide gradient = widen(g[i]);
        for (int64 tap = 0; tap < taps; ++tap) {
            int64 place = wrapped(index[tap * n + m], size);
            atomicAdd(dx + (o * size + place) * inner + (i - row * inner), gradient * widen(weight[tap * n + m]));
        }
    });
}

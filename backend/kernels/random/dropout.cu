// Dropout; the formulas are in dropout.py.
#include "device/philox.cuh"

KERNEL(256)
dropout_forward(const real* __restrict__ x, real* __restrict__ y, bool* __restrict__ mask, uint64 seed, uint64 stream,
                int64 start, int64 threshold, double scale, int64 n)
{
    wide factor = (wide)scale;
    each_block(start, n, seed, stream, [&](int64 i, const Words& words) {
        Four<real> result;
        Four<bool> kept;
        Four<real> given = {};
        if (i >= 0 && i + 4 <= n && (uint64)(x + i) % sizeof(given) == 0)
            given = *reinterpret_cast<const Four<real>*>(x + i);
        else
            for (int k = 0; k < 4; ++k)
                if (i + k >= 0 && i + k < n) given.at[k] = x[i + k];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            kept.at[k] = (int64)words.at[k] >= threshold;
            result.at[k] = Rounding<real>::of(kept.at[k] ? widen(given.at[k]) * factor : (wide)0);
        }
        store_four(y, i, n, result);
        store_four(mask, i, n, kept);
    });
}

template <int N> struct alignas(N) Flags { bool at[N]; };
template <int N> __device__ inline Flags<N> load(const bool* place, Count<N>)
{
    return *reinterpret_cast<const Flags<N>*>(place);
}

KERNEL(256)
dropout_backward(const real* __restrict__ g, const bool* __restrict__ mask, double scale, real* __restrict__ dx, int64 n)
{
    wide factor = (wide)scale;
    bool packed = aligned(g, dx) && (uint64)mask % PACK == 0;
    sweep_all(n, packed, [&](int64 i, auto count) {
        auto v = load(g + i, count);
        auto kept = load(mask + i, count);
#pragma unroll
        for (int k = 0; k < count; ++k) v.at[k] = kept.at[k] ? v.at[k] * factor : (wide)0;
        store(dx + i, v);
    });
}

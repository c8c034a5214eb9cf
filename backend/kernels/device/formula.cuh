// What formulas of single elements need beyond CUDA's own functions: NumPy's, which let NaN through.
#pragma once
#include "device/device.cuh"

__device__ inline wide larger(wide x, wide y) { return x != x || x >= y ? x : y; }
__device__ inline wide smaller(wide x, wide y) { return x != x || x <= y ? x : y; }
__device__ inline wide sign(wide x) { return x > 0 ? (wide)1 : x < 0 ? (wide)-1 : x == 0 ? (wide)0 : x; }

__device__ inline wide sigmoid(wide x)
{
    wide e = exp(-fabs(x));
    return (x < 0 ? e : (wide)1) / ((wide)1 + e);
}

// An operand of a loop: an array, or one element for all.
template <class T> struct Operand {
    const T* place;
    bool single;
};

__device__ inline Values<1> load(Operand<real> x, int64 i, Count<1>) { return {{widen(x.place[x.single ? 0 : i])}}; }
template <int N> __device__ inline Values<N> load(Operand<real> x, int64 i, Count<N> count)
{
    if (!x.single) return load(x.place + i, count);
    Values<N> values;
    wide value = widen(*x.place);
#pragma unroll
    for (int k = 0; k < N; ++k) values.at[k] = value;
    return values;
}

template <int N> struct alignas(N) Flags { bool at[N]; };
template <int N> __device__ inline Flags<N> load(Operand<bool> x, int64 i, Count<N>)
{
    if (!x.single) return *reinterpret_cast<const Flags<N>*>(x.place + i);
    Flags<N> values;
#pragma unroll
    for (int k = 0; k < N; ++k) values.at[k] = *x.place;
    return values;
}

__device__ inline bool packable(Operand<real> x) { return x.single || aligned(x.place); }
__device__ inline bool packable(Operand<bool> x) { return x.single || (uint64)x.place % PACK == 0; }

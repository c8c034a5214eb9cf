// What all kernels share: element types, loops over arrays, sums over the threads that work together.
//
// REAL is the type of the elements, given when a file is compiled: float, double, float16 or bfloat16.
// Arithmetic is done in `wide`: double for double, and float for all others. Sizes and indices have
// 64 bits everywhere. No kernel counts on a certain number of blocks or threads.
//
// Needs no header of CUDA's: NVRTC alone compiles it, and so does a C++ compiler that is told what
// threadIdx and the like are.
#pragma once

typedef long long int64;
typedef unsigned int uint32;
typedef unsigned long long uint64;

struct float16 { unsigned short bits; };
struct bfloat16 { unsigned short bits; };

typedef REAL real;

template <class T> struct Wide { typedef float type; };
template <> struct Wide<double> { typedef double type; };
typedef Wide<real>::type wide;

// A kernel, and how many threads at most a block of it has: fewer registers are shared out among more.
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)

// ---- numbers

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(bfloat16 x) { return __uint_as_float((uint32)x.bits << 16); }
__device__ inline float widen(float16 x)
{
#ifdef __CUDACC_RTC__
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
#else
    return host_half_to_float(x.bits);
#endif
}

template <class T> struct Rounding;
template <> struct Rounding<float> {
    static __device__ float of(float x) { return x; }
};
template <> struct Rounding<double> {
    static __device__ double of(double x) { return x; }
};
template <> struct Rounding<bfloat16> {
    static __device__ bfloat16 of(float x)  // to nearest, ties to even; not all devices have an instruction
    {
        uint32 bits = __float_as_uint(x);
        bits = x != x ? bits | 0x400000u : bits + (0x7FFFu + ((bits >> 16) & 1u));
        return bfloat16{(unsigned short)(bits >> 16)};
    }
};
template <> struct Rounding<float16> {
    static __device__ float16 of(float x)
    {
#ifdef __CUDACC_RTC__
        float16 y;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
        return y;
#else
        return float16{host_float_to_half(x)};
#endif
    }
};

// a / b where both are at least 0: division of 64-bit integers takes many times that of 32-bit ones.
__device__ inline int64 quotient(int64 a, int64 b)
{
    return (uint64)(a | b) >> 32 ? a / b : (int64)((uint32)a / (uint32)b);
}

// An index as NumPy and CuPy wrap it: negative ones count from the end, and none leaves the array.
__device__ inline int64 wrapped(int64 index, int64 size)
{
    if (index < 0) index += size;
    if (index >= 0 && index < size) return index;
    index %= size;
    return index < 0 ? index + size : index;
}

__device__ inline wide infinity() { return (wide)__uint_as_float(0x7F800000u); }
__device__ inline wide not_a_number() { return (wide)__uint_as_float(0x7FC00000u); }

// ---- loops over arrays, 16 bytes at a time where all of them allow it

template <int N> struct Count {
    __device__ constexpr operator int() const { return N; }
};
template <int N> struct Values { wide at[N]; };

constexpr int PACK = 16 / sizeof(real);
union Pack {
    uint4 words;
    real at[PACK];
};

__device__ inline Values<1> load(const real* place, Count<1>) { return {{widen(*place)}}; }
template <int N> __device__ inline Values<N> load(const real* place, Count<N>)
{
    Pack pack;
    pack.words = *reinterpret_cast<const uint4*>(place);
    Values<N> values;
#pragma unroll
    for (int k = 0; k < N; ++k) values.at[k] = widen(pack.at[k]);
    return values;
}

__device__ inline void store(real* place, const Values<1>& values)
{
    *place = Rounding<real>::of(values.at[0]);
}
template <int N> __device__ inline void store(real* place, const Values<N>& values)
{
    Pack pack;
#pragma unroll
    for (int k = 0; k < N; ++k) pack.at[k] = Rounding<real>::of(values.at[k]);
    *reinterpret_cast<uint4*>(place) = pack.words;
}

// As numbers of the wide type, which take more room where elements have 16 bits.
template <int N> __device__ inline void store_wide(wide* place, const Values<N>& values)
{
    if constexpr (sizeof(wide) == sizeof(real))
        store(reinterpret_cast<real*>(place), values);
    else
#pragma unroll
        for (int k = 0; k < N; ++k) place[k] = values.at[k];
}

template <class... Pointers> __device__ inline bool aligned(Pointers... pointers)
{
    return (((uint64)pointers | ...) & 15) == 0;
}

// Calls body(i, Count<N>()) for elements i to i + N - 1, such that every element from 0 to n - 1 has its
// turn once among `step` threads, of which this is number `first`. N is PACK or, where not packed, 1.
template <class Body> __device__ inline void sweep(int64 n, int64 first, int64 step, bool packed, Body body)
{
    int64 whole = packed ? n - n % PACK : 0;
    for (int64 i = first * PACK; i < whole; i += step * PACK) body(i, Count<PACK>());
    for (int64 i = whole + first; i < n; i += step) body(i, Count<1>());
}

// The same among all threads of the grid.
template <class Body> __device__ inline void sweep_all(int64 n, bool packed, Body body)
{
    sweep(n, blockIdx.x * (int64)blockDim.x + threadIdx.x, (int64)gridDim.x * blockDim.x, packed, body);
}

template <class F> __device__ inline void map(int64 n, const real* x, real* y, F f)
{
    sweep_all(n, aligned(x, y), [&](int64 i, auto count) {
        auto a = load(x + i, count);
#pragma unroll
        for (int k = 0; k < count; ++k) a.at[k] = f(a.at[k]);
        store(y + i, a);
    });
}

template <class F> __device__ inline void map(int64 n, const real* x, const real* y, real* z, F f)
{
    sweep_all(n, aligned(x, y, z), [&](int64 i, auto count) {
        auto a = load(x + i, count), b = load(y + i, count);
#pragma unroll
        for (int k = 0; k < count; ++k) a.at[k] = f(a.at[k], b.at[k]);
        store(z + i, a);
    });
}

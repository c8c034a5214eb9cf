// Rows: each is worked on by a team, the threads of a block that have the same threadIdx.y.
//
// A team is a power of two of threads, blockDim.x. One of at most 32 lies inside a warp, and a block may
// hold several; a larger one has its block for itself.
#pragma once
#include "device/device.cuh"

// Calls body(row, mine) for the rows of this team. All threads of a block take part in every call, so
// that they may exchange values in it; where there are no more rows, `mine` is false and row is the last.
template <class Body> __device__ inline void each_row(int64 rows, Body body)
{
    for (int64 start = blockIdx.x * (int64)blockDim.y; start < rows; start += (int64)gridDim.x * blockDim.y) {
        int64 row = start + threadIdx.y;
        body(row < rows ? row : rows - 1, row < rows);
    }
}

// Calls body(i, count) for the elements of a row, see sweep.
template <class Body> __device__ inline void each_in_row(int64 columns, bool packed, Body body)
{
    sweep(columns, threadIdx.x, blockDim.x, packed, body);
}

// Whether all rows of these matrices can be read 16 bytes at a time.
template <class... Pointers> __device__ inline bool aligned_rows(int64 columns, Pointers... pointers)
{
    return columns % PACK == 0 && aligned(pointers...);
}

// The value of the thread whose number in the warp differs in the bit `bit`, and that of the first of each
// `width` threads.
template <class T> __device__ inline T across(T x, int bit) { return __shfl_xor_sync(0xFFFFFFFFu, x, bit); }
template <class T> __device__ inline T of_first(T x, int width) { return __shfl_sync(0xFFFFFFFFu, x, 0, width); }

struct Pair { wide a, b; };
__device__ inline Pair operator+(Pair x, Pair y) { return {x.a + y.a, x.b + y.b}; }
__device__ inline Pair across(Pair x, int bit) { return {across(x.a, bit), across(x.b, bit)}; }
__device__ inline Pair of_first(Pair x, int width) { return {of_first(x.a, width), of_first(x.b, width)}; }

// What `combine`, which must be associative and commutative, makes of the values of a team's threads: the
// same for all of them, and from run to run.
template <class T, class F> __device__ inline T over_team(T value, F combine)
{
    int threads = blockDim.x, width = threads < 32 ? threads : 32;
    for (int bit = width / 2; bit > 0; bit /= 2) value = combine(value, across(value, bit));
    value = of_first(value, width);  // a multiply-add may round x * a + y * b unlike y * b + x * a
    if (threads > 32) {
        __shared__ T parts[32];
        __syncthreads();  // all have read the parts of the call before
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
        __syncthreads();
        value = parts[0];
        for (int warp = 1; warp < threads / 32; ++warp) value = combine(value, parts[warp]);
    }
    return value;
}

template <class T> __device__ inline T sum_over_team(T value)
{
    return over_team(value, [](T x, T y) { return x + y; });
}

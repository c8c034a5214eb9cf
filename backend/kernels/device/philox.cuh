// Random words by position: Philox 4x32-10, see philox.py.
#pragma once
#include "device/device.cuh"

struct Words { uint32 at[4]; };

__device__ inline Words philox(uint64 block, uint64 seed, uint64 stream)
{
    uint32 c0 = (uint32)block, c1 = (uint32)(block >> 32), c2 = (uint32)stream, c3 = (uint32)(stream >> 32);
    uint32 k0 = (uint32)seed, k1 = (uint32)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        uint64 a = (uint64)c0 * 0xD2511F53u, b = (uint64)c2 * 0xCD9E8D57u;
        c0 = (uint32)(b >> 32) ^ c1 ^ k0, c2 = (uint32)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32)b, c3 = (uint32)a;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

// Calls body(i, words) for the blocks that hold words `start` to start + n - 1 of a stream: words[k] is
// word number start + i + k. Where the first or last block sticks out, i + k is negative or n or more.
template <class Body> __device__ inline void each_block(int64 start, int64 n, uint64 seed, uint64 stream, Body body)
{
    int64 first = start / 4, skip = start % 4, blocks = (skip + n + 3) / 4;
    sweep_all(blocks, false, [&](int64 b, auto) { body(4 * b - skip, philox(first + b, seed, stream)); });
}

template <class T> struct alignas(4 * sizeof(T)) Four { T at[4]; };

// Writes four values to place + i, without those beyond the `n` elements; in one go where it can.
template <class T> __device__ inline void store_four(T* place, int64 i, int64 n, const Four<T>& values)
{
    if (i >= 0 && i + 4 <= n && (uint64)(place + i) % sizeof(values) == 0) {
        *reinterpret_cast<Four<T>*>(place + i) = values;
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k)
        if (i + k >= 0 && i + k < n) place[i + k] = values.at[k];
}

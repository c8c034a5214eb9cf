// Random numbers by position, bit for bit those of random.py. Compiled without fused multiply-adds.
#include "device/philox.cuh"
#include "device/quantile.cuh"

KERNEL(256) random_words(uint32* __restrict__ out, uint64 seed, uint64 stream, int64 start, int64 n)
{
    each_block(start, n, seed, stream, [&](int64 i, const Words& words) {
        store_four(out, i, n, Four<uint32>{{words.at[0], words.at[1], words.at[2], words.at[3]}});
    });
}

KERNEL(256) bernoulli(bool* __restrict__ out, uint64 seed, uint64 stream, int64 start, int64 threshold, int64 n)
{
    each_block(start, n, seed, stream, [&](int64 i, const Words& words) {
        Four<bool> values;
#pragma unroll
        for (int k = 0; k < 4; ++k) values.at[k] = (int64)words.at[k] < threshold;
        store_four(out, i, n, values);
    });
}

// Writes the numbers that `of` makes of each word or, in double precision, of each pair of words.
template <class F> __device__ inline void write_each(real* out, uint64 seed, uint64 stream, int64 start, int64 n, F of)
{
    if constexpr (sizeof(real) == 4) {
        each_block(start, n, seed, stream, [&](int64 i, const Words& words) {
            Four<real> values;
#pragma unroll
            for (int k = 0; k < 4; ++k) values.at[k] = of(words.at[k]);
            store_four(out, i, n, values);
        });
    } else {
        each_block(2 * start, 2 * n, seed, stream, [&](int64 i, const Words& words) {
#pragma unroll
            for (int k = 0; k < 4; k += 2)
                if (i + k >= 0 && i + k < 2 * n)
                    out[(i + k) / 2] = of((uint64)words.at[k] << 32 | words.at[k + 1]);
        });
    }
}

__device__ inline float uniform_number(uint32 word) { return (float)(word >> 8) * 0x1p-24f; }
__device__ inline double uniform_number(uint64 word) { return (double)(word >> 11) * 0x1p-53; }

KERNEL(256) uniform(real* __restrict__ out, uint64 seed, uint64 stream, int64 start, int64 n)
{
    write_each(out, seed, stream, start, n, [](auto word) { return uniform_number(word); });
}

KERNEL(256) normal(real* __restrict__ out, uint64 seed, uint64 stream, int64 start, int64 n)
{
    write_each(out, seed, stream, start, n, [](auto word) { return normal_number(word); });
}

// Sums over the rows of a matrix, and of squares; the formulas are in reduction.py.
#include "device/columns.cuh"

KERNEL(256) sum_rows_once(const real* __restrict__ x, wide* __restrict__ sums, int64 rows, int64 columns)
{
    sum_rows(rows, columns, sums, [&](int64 i, int64 j) { return widen(x[i * columns + j]); });
}

// The rest of it: `parts` rows of sums added up in double precision, times a factor. Of every `step` sums
// that stand for one column, number `first` is meant.
KERNEL(1024)
add_parts(const wide* __restrict__ sums, int64 step, int64 first, double factor, real* __restrict__ total,
          int64 parts, int64 columns)
{
    __shared__ double shared[32][COLUMNS];
    for (int64 start = blockIdx.x * (int64)COLUMNS; start < columns; start += gridDim.x * (int64)COLUMNS) {
        int64 column = start + threadIdx.x;
        double sum = 0;
        if (column < columns)
            for (int64 part = threadIdx.y; part < parts; part += blockDim.y)
                sum += sums[(part * columns + column) * step + first];
        shared[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y == 0 && column < columns) {
            for (int lane = 1; lane < (int)blockDim.y; ++lane) sum += shared[lane][threadIdx.x];
            total[column] = Rounding<real>::of((wide)(sum * factor));
        }
        __syncthreads();  // before the sums are written again
    }
}

// Squares are added up in double precision: one sum per block, then one over those sums.
// (The number of blocks is that of the sums.)
KERNEL(256) sum_of_squares(const real* __restrict__ x, double* __restrict__ sums, int64 n)
{
    double total = 0;
    sweep_all(n, aligned(x), [&](int64 i, auto count) {
        auto v = load(x + i, count);
#pragma unroll
        for (int k = 0; k < count; ++k) total += (double)v.at[k] * (double)v.at[k];
    });
    total = sum_over_team(total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

KERNEL(1024) sum_all(const double* __restrict__ x, double* __restrict__ total, int64 n)
{
    double sum = 0;
    for (int64 i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
    sum = sum_over_team(sum);
    if (threadIdx.x == 0) *total = sum;
}

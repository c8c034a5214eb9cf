// Sums over the rows of a matrix, in two steps: over a few rows in the elements' precision, then over
// those sums in double precision. The order is always the same, so results do not differ between runs.
#pragma once
#include "device/team.cuh"

constexpr int COLUMNS = 32, LANES = 8, ROWS = 128;  // a block: as many columns, threads in each, and rows

// Writes, for each of `parts` groups of ROWS rows and for each column, the sum of value(row, column).
// Launched with (COLUMNS, LANES) threads and a grid of columns by parts.
template <class T, class F> __device__ inline void sum_rows(int64 rows, int64 columns, T* sums, F value)
{
    __shared__ T shared[LANES][COLUMNS];
    int64 parts = (rows + ROWS - 1) / ROWS;
    for (int64 first = blockIdx.x * (int64)COLUMNS; first < columns; first += gridDim.x * (int64)COLUMNS) {
        int64 column = first + threadIdx.x;
        for (int64 part = blockIdx.y; part < parts; part += gridDim.y) {
            int64 stop = (part + 1) * ROWS < rows ? (part + 1) * ROWS : rows;
            T total = {};
            if (column < columns)
                for (int64 row = part * ROWS + threadIdx.y; row < stop; row += LANES) total = total + value(row, column);
            shared[threadIdx.y][threadIdx.x] = total;
            __syncthreads();
            if (threadIdx.y == 0 && column < columns) {
                for (int lane = 1; lane < LANES; ++lane) total = total + shared[lane][threadIdx.x];
                sums[part * columns + column] = total;
            }
            __syncthreads();  // before the sums are written again
        }
    }
}

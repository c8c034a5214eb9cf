// Running sums along a dim, in double precision; the formula is in scan.py.
#include "device.cuh"

// Along the last dim: a block goes along a row, as many elements at a time as it has threads.
KERNEL(1024) running_sum_rows(const real* __restrict__ x, real* __restrict__ out, int64 rows, int64 columns)
{
    __shared__ double totals[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int64 row = blockIdx.x; row < rows; row += gridDim.x) {
        double before = 0;
        for (int64 start = 0; start < columns; start += blockDim.x) {
            int64 j = start + threadIdx.x;
            double sum = j < columns ? (double)widen(x[row * columns + j]) : 0.0;
            for (int distance = 1; distance < 32; distance *= 2) {
                double left = __shfl_up_sync(0xFFFFFFFFu, sum, distance);
                if (lane >= distance) sum += left;
            }
            if (lane == 31) totals[warp] = sum;
            __syncthreads();
            double all = 0, left = before;
            for (int w = 0; w < warps; ++w) {
                if (w == warp) left = before + all;
                all += totals[w];
            }
            if (j < columns) out[row * columns + j] = Rounding<real>::of((wide)(left + sum));
            before += all;
            __syncthreads();  // before the totals are written again
        }
    }
}

// Along the middle of (outer, n, inner): a thread goes along one line of it.
KERNEL(256)
running_sum_lines(const real* __restrict__ x, real* __restrict__ out, int64 n, int64 inner, int64 lines)
{
    sweep_all(lines, false, [&](int64 line, auto) {
        int64 o = quotient(line, inner), start = o * n * inner + (line - o * inner);
        double sum = 0;
        for (int64 i = 0; i < n; ++i) {
            sum += widen(x[start + i * inner]);
            out[start + i * inner] = Rounding<real>::of((wide)sum);
        }
    });
}

// Running sums, products and extremes along a dim; the formulas are in scan.py.
//
// Each goes along the last dim, a block to a row, as many elements at a time as it has threads; or along the
// middle of (outer, n, inner), a thread to a line.
#include "device/device.cuh"

// An element with its place.
struct Placed {
    double value;
    int64 place;
};

__device__ inline double above(double x, int distance) { return __shfl_up_sync(0xFFFFFFFFu, x, distance); }
__device__ inline Placed above(Placed x, int distance)
{
    return {__shfl_up_sync(0xFFFFFFFFu, x.value, distance), __shfl_up_sync(0xFFFFFFFFu, x.place, distance)};
}

// combine(earlier, later) is associative, and combine(none, x) is x; read(i) and write(i, result) count
// elements from the front of the array.
template <class T, class Read, class Combine, class Write>
__device__ inline void scan_rows(int64 rows, int64 columns, T none, Read read, Combine combine, Write write)
{
    __shared__ T totals[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int64 row = blockIdx.x; row < rows; row += gridDim.x) {
        T before = none;
        for (int64 start = 0; start < columns; start += blockDim.x) {
            int64 j = start + threadIdx.x;
            T result = j < columns ? read(row * columns + j, j) : none;
            for (int distance = 1; distance < 32; distance *= 2) {
                T left = above(result, distance);
                if (lane >= distance) result = combine(left, result);
            }
            if (lane == 31) totals[warp] = result;
            __syncthreads();
            T left = before;
            for (int w = 0; w < warps; ++w) {
                if (w == warp) left = before;
                before = combine(before, totals[w]);
            }
            if (j < columns) write(row * columns + j, combine(left, result));
            __syncthreads();  // before the totals are written again
        }
    }
}

template <class T, class Read, class Combine, class Write>
__device__ inline void scan_lines(int64 n, int64 inner, int64 lines, T none, Read read, Combine combine, Write write)
{
    sweep_all(lines, false, [&](int64 line, auto) {
        int64 o = quotient(line, inner), start = o * n * inner + (line - o * inner);
        T result = none;
        for (int64 i = 0; i < n; ++i) {
            result = combine(result, read(start + i * inner, i));
            write(start + i * inner, result);
        }
    });
}

// ---- sums and products, in double precision

struct Sum {
    static constexpr double none = 0.0;
    static __device__ double of(double x, double y) { return x + y; }
};
struct Product {
    static constexpr double none = 1.0;
    static __device__ double of(double x, double y) { return x * y; }
};

// Numbers of an array, read in double precision and rounded when they are written.
struct Numbers {
    const real* x;
    real* out;

    template <class F> __device__ void rows(int64 count, int64 columns, F) const
    {
        scan_rows(count, columns, F::none, reader(), [](double a, double b) { return F::of(a, b); }, writer());
    }
    template <class F> __device__ void lines(int64 n, int64 inner, int64 count, F) const
    {
        scan_lines(n, inner, count, F::none, reader(), [](double a, double b) { return F::of(a, b); }, writer());
    }

  private:
    __device__ auto reader() const
    {
        return [x = x](int64 i, int64) { return (double)widen(x[i]); };
    }
    __device__ auto writer() const
    {
        return [out = out](int64 i, double result) { out[i] = Rounding<real>::of((wide)result); };
    }
};

KERNEL(1024) running_sum_rows(const real* __restrict__ x, real* __restrict__ out, int64 rows, int64 columns)
{
    Numbers{x, out}.rows(rows, columns, Sum());
}
KERNEL(256) running_sum_lines(const real* __restrict__ x, real* __restrict__ out, int64 n, int64 inner, int64 lines)
{
    Numbers{x, out}.lines(n, inner, lines, Sum());
}
KERNEL(1024) running_product_rows(const real* __restrict__ x, real* __restrict__ out, int64 rows, int64 columns)
{
    Numbers{x, out}.rows(rows, columns, Product());
}
KERNEL(256) running_product_lines(const real* __restrict__ x, real* __restrict__ out, int64 n, int64 inner, int64 lines)
{
    Numbers{x, out}.lines(n, inner, lines, Product());
}

// ---- extremes, of which the last of its equals counts; NaN stays once it is met, and its place is the last one's

// `sign` is 1 for the largest and -1 for the smallest. A place of -1 stands for no element yet.
struct Extreme {
    double sign;

    __device__ Placed operator()(Placed a, Placed b) const
    {
        if (b.place < 0 || (a.value != a.value && b.value == b.value)) return a;
        return a.place < 0 || b.value != b.value || sign * b.value >= sign * a.value ? b : a;
    }
};

KERNEL(1024)
running_extreme_rows(const real* __restrict__ x, real* __restrict__ out, int64* __restrict__ places, double sign,
                     int64 rows, int64 columns)
{
    scan_rows(
        rows, columns, Placed{0.0, -1}, [&](int64 i, int64 j) { return Placed{(double)widen(x[i]), j}; }, Extreme{sign},
        [&](int64 i, Placed result) { out[i] = Rounding<real>::of((wide)result.value), places[i] = result.place; });
}
KERNEL(256)
running_extreme_lines(const real* __restrict__ x, real* __restrict__ out, int64* __restrict__ places, double sign,
                      int64 n, int64 inner, int64 lines)
{
    scan_lines(
        n, inner, lines, Placed{0.0, -1}, [&](int64 i, int64 j) { return Placed{(double)widen(x[i]), j}; },
        Extreme{sign},
        [&](int64 i, Placed result) { out[i] = Rounding<real>::of((wide)result.value), places[i] = result.place; });
}

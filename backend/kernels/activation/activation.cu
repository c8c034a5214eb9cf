// GELU in both forms, and erf; the formulas are in activation.py. Those of others are written by formula_source.py.
#include "device/device.cuh"

constexpr wide SQRT_HALF = 0.70710678118654752440, INVERSE_SQRT_2PI = 0.39894228040143267794;
constexpr wide SQRT_2_OVER_PI = 0.79788456080286535588, CUBIC = 0.044715;

// Unlike fmin and fmax, this lets NaN through.
__device__ inline wide clipped(wide x, wide low, wide high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

KERNEL(256) erf_each(const real* __restrict__ x, real* __restrict__ y, int64 n)
{
    map(n, x, y, [](wide v) { return erf(v); });
}

KERNEL(256) gelu_forward(const real* __restrict__ x, real* __restrict__ y, int64 n)
{
    map(n, x, y, [](wide v) { return (wide)0.5 * v * ((wide)1 + erf(v * SQRT_HALF)); });
}

KERNEL(256) gelu_backward(const real* __restrict__ g, const real* __restrict__ x, real* __restrict__ dx, int64 n)
{
    map(n, g, x, dx, [](wide gradient, wide v) {
        v = clipped(v, -40, 40);
        wide density = INVERSE_SQRT_2PI * exp((wide)-0.5 * v * v);
        return gradient * ((wide)0.5 * ((wide)1 + erf(v * SQRT_HALF)) + v * density);
    });
}

// The tanh form is x * sigmoid(2u), and with s = exp(-2|u|) everything it needs comes without
// cancellation: sigmoid(2u) = (1 or s) / (1 + s), and its slope is 2s / (1 + s)**2 times that of u.

KERNEL(256) gelu_tanh_forward(const real* __restrict__ x, real* __restrict__ y, int64 n)
{
    map(n, x, y, [](wide v) {
        wide u = SQRT_2_OVER_PI * (v + CUBIC * v * v * v);
        wide s = exp((wide)-2 * fabs(u));
        return v * ((u >= 0 ? (wide)1 : s) / ((wide)1 + s));
    });
}

KERNEL(256)
gelu_tanh_backward(const real* __restrict__ g, const real* __restrict__ x, real* __restrict__ dx, int64 n)
{
    map(n, g, x, dx, [](wide gradient, wide v) {
        v = clipped(v, -10, 10);
        wide u = SQRT_2_OVER_PI * (v + CUBIC * v * v * v);
        wide s = exp((wide)-2 * fabs(u));
        wide r = (wide)1 / ((wide)1 + s);
        wide slope = (wide)2 * s * r * r * SQRT_2_OVER_PI * ((wide)1 + (wide)3 * CUBIC * v * v);
        return gradient * ((u >= 0 ? (wide)1 : s) * r + v * slope);
    });
}

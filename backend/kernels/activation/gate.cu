// Gated units over the halves of a dim; the formulas are in gate.py. x: (outer, 2, inner), y and g: (outer, inner).
#include "device/formula.cuh"

template <class F> __device__ inline void map_halves(const real* x, real* y, int64 inner, int64 total, F f)
{
    bool packed = aligned(x, y) && inner % PACK == 0;
    sweep_all(total, packed, [&](int64 i, auto count) {
        int64 outer = quotient(i, inner);
        auto a = load(x + i + outer * inner, count), b = load(x + i + (outer + 1) * inner, count);
#pragma unroll
        for (int k = 0; k < count; ++k) a.at[k] = f(a.at[k], b.at[k]);
        store(y + i, a);
    });
}

// f changes the halves into their gradients.
template <class F>
__device__ inline void map_halves_backward(const real* g, const real* x, real* dx, int64 inner, int64 total, F f)
{
    bool packed = aligned(g, x, dx) && inner % PACK == 0;
    sweep_all(total, packed, [&](int64 i, auto count) {
        int64 outer = quotient(i, inner), first = i + outer * inner, second = first + inner;
        auto gradient = load(g + i, count), a = load(x + first, count), b = load(x + second, count);
#pragma unroll
        for (int k = 0; k < count; ++k) f(gradient.at[k], a.at[k], b.at[k]);
        store(dx + first, a);
        store(dx + second, b);
    });
}

// Far below 0 the sigmoid is 0 anyway, and -inf * 0 would be NaN.
__device__ inline wide silu(wide x) { return (x < -1000 ? (wide)-1000 : x) * sigmoid(x); }

__device__ inline wide silu_slope(wide x)
{
    wide cut = x < -45 ? (wide)-45 : x > 45 ? (wide)45 : x;
    return sigmoid(cut) * ((wide)1 + cut * sigmoid(-cut));
}

KERNEL(256) glu_forward(const real* __restrict__ x, real* __restrict__ y, int64 inner, int64 total)
{
    map_halves(x, y, inner, total, [](wide a, wide b) { return a * sigmoid(b); });
}

KERNEL(256)
glu_backward(const real* __restrict__ g, const real* __restrict__ x, real* __restrict__ dx, int64 inner, int64 total)
{
    map_halves_backward(g, x, dx, inner, total, [](wide gradient, wide& a, wide& b) {
        wide s = sigmoid(b), through = gradient * s;
        b = through * a * ((wide)1 - s);
        a = through;
    });
}

KERNEL(256) swiglu_forward(const real* __restrict__ x, real* __restrict__ y, int64 inner, int64 total)
{
    map_halves(x, y, inner, total, [](wide a, wide b) { return silu(a) * b; });
}

KERNEL(256)
swiglu_backward(const real* __restrict__ g, const real* __restrict__ x, real* __restrict__ dx, int64 inner, int64 total)
{
    map_halves_backward(g, x, dx, inner, total, [](wide gradient, wide& a, wide& b) {
        wide gate = a;
        a = gradient * b * silu_slope(gate);
        b = gradient * silu(gate);
    });
}

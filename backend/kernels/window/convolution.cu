// Windows of a convolution as a matrix, and depthwise convolutions; see convolution.py and depthwise.py.
//
// Every thread makes one element of the result from all that it is made of, so nothing is added up by two.
#include "device/places.cuh"
#include "device/team.cuh"

// columns: (channels, *kernel, batch, *out), x: (batch, channels, *size).
KERNEL(256)
take_windows(real* __restrict__ columns, const real* __restrict__ x, const int64* __restrict__ numbers, int64 total)
{
    const Plan& plan = *reinterpret_cast<const Plan*>(numbers);
    sweep_all(total, false, [&](int64 i, auto) {
        Place o = place_of(i, plan.out[0], plan.out[1], plan.out[2]);
        int64 tap = quotient(o.plane, plan.batch), n = o.plane - tap * plan.batch;
        Place k = place_of(tap, plan.kernel[0], plan.kernel[1], plan.kernel[2]);
        int64 d = seen(plan, 0, o.d, k.d), h = seen(plan, 1, o.h, k.h), w = seen(plan, 2, o.w, k.w);
        bool inside = d >= 0 && h >= 0 && w >= 0;
        int64 image = (n * plan.channels + k.plane) * volume(plan.size);
        columns[i] = inside ? x[image + offset(plan.size, d, h, w)] : Rounding<real>::of((wide)0);
    });
}

KERNEL(256)
add_windows(real* __restrict__ x, const real* __restrict__ columns, const int64* __restrict__ numbers, int64 total)
{
    const Plan& plan = *reinterpret_cast<const Plan*>(numbers);
    sweep_all(total, false, [&](int64 i, auto) {
        Place at = place_of(i, plan.size[0], plan.size[1], plan.size[2]);
        int64 n = quotient(at.plane, plan.channels), c = at.plane - n * plan.channels;
        wide sum = widen(x[i]);
        each_seeing(plan, at, [&](int64 o, int64 k) {
            int64 tap = c * volume(plan.kernel) + k;
            sum += widen(columns[(tap * plan.batch + n) * volume(plan.out) + o]);
        });
        x[i] = Rounding<real>::of(sum);
    });
}

// x: (batch, channels, *size), weight: (channels * many, 1, *kernel), y: (batch, channels * many, *out).
KERNEL(256)
depthwise_forward(const real* __restrict__ x, const real* __restrict__ weight, const int64* __restrict__ numbers,
                  int64 many, real* __restrict__ y, int64 total)
{
    const Plan& plan = *reinterpret_cast<const Plan*>(numbers);
    sweep_all(total, false, [&](int64 i, auto) {
        Place o = place_of(i, plan.out[0], plan.out[1], plan.out[2]);
        const real* image = x + quotient(o.plane, many) * volume(plan.size);
        const real* taps = weight + o.plane % (plan.channels * many) * volume(plan.kernel);
        wide sum = 0;
        each_seen(plan, o, [&](int64 at, int64 k) { sum += widen(image[at]) * widen(taps[k]); });
        y[i] = Rounding<real>::of(sum);
    });
}

KERNEL(256)
depthwise_input(const real* __restrict__ g, const real* __restrict__ weight, const int64* __restrict__ numbers,
                int64 many, real* __restrict__ dx, int64 total)
{
    const Plan& plan = *reinterpret_cast<const Plan*>(numbers);
    sweep_all(total, false, [&](int64 i, auto) {
        Place at = place_of(i, plan.size[0], plan.size[1], plan.size[2]);
        int64 c = at.plane % plan.channels;
        wide sum = 0;
        for (int64 m = 0; m < many; ++m) {
            const real* gradient = g + (at.plane * many + m) * volume(plan.out);
            const real* taps = weight + (c * many + m) * volume(plan.kernel);
            each_seeing(plan, at, [&](int64 o, int64 k) { sum += widen(gradient[o]) * widen(taps[k]); });
        }
        dx[i] = Rounding<real>::of(sum);
    });
}

// A team per element of the weight, which goes over all images and output places.
KERNEL(1024)
depthwise_weight(const real* __restrict__ x, const real* __restrict__ g, const int64* __restrict__ numbers, int64 many,
                 real* __restrict__ dweight, int64 total)
{
    const Plan& plan = *reinterpret_cast<const Plan*>(numbers);
    int64 places = volume(plan.out), images = plan.channels * many;
    each_row(total, [&](int64 i, bool mine) {
        Place k = place_of(i, plan.kernel[0], plan.kernel[1], plan.kernel[2]);
        wide sum = 0;
        each_in_row(plan.batch * places, false, [&](int64 j, auto) {
            int64 n = quotient(j, places);
            Place o = place_of(j - n * places, plan.out[0], plan.out[1], plan.out[2]);
            int64 d = seen(plan, 0, o.d, k.d), h = seen(plan, 1, o.h, k.h), w = seen(plan, 2, o.w, k.w);
            if (d < 0 || h < 0 || w < 0) return;
            int64 image = quotient(n * images + k.plane, many) * volume(plan.size);
            sum += widen(g[(n * images + k.plane) * places + (j - n * places)])
                   * widen(x[image + offset(plan.size, d, h, w)]);
        });
        sum = sum_over_team(sum);
        if (mine && threadIdx.x == 0) dweight[i] = Rounding<real>::of(sum);
    });
}

// Means and maxima over windows; the formulas are in pooling.py.
//
// `table` holds, for every output place of depth, height and width, one after the other: the first input
// place that it sees, the one behind the last, their distance, and what its sum is divided by.
#include "device/places.cuh"

struct Seen { int64 start, stop, step, count; };

// Calls body(offset) for the input places that output place `o` sees, rows first; returns the divisor.
template <class Body>
__device__ inline wide each_in_window(const int64* table, Place o, int64 depth_out, int64 height_out, int64 height,
                                      int64 width, Body body)
{
    const Seen* all = reinterpret_cast<const Seen*>(table);
    const Seen &a = all[o.d], &b = all[depth_out + o.h], &c = all[depth_out + height_out + o.w];
    for (int64 z = a.start; z < a.stop; z += a.step)
        for (int64 y = b.start; y < b.stop; y += b.step)
            for (int64 x = c.start; x < c.stop; x += c.step) body((z * height + y) * width + x);
    return (wide)a.count * (wide)b.count * (wide)c.count;
}

KERNEL(256)
average_forward(const real* __restrict__ x, const int64* __restrict__ table, int64 depth, int64 height, int64 width,
                int64 depth_out, int64 height_out, int64 width_out, real* __restrict__ y, int64 total)
{
    sweep_all(total, false, [&](int64 i, auto) {
        Place o = place_of(i, depth_out, height_out, width_out);
        const real* plane = x + o.plane * depth * height * width;
        wide sum = 0;
        wide divisor = each_in_window(table, o, depth_out, height_out, height, width,
                                      [&](int64 at) { sum += widen(plane[at]); });
        y[i] = Rounding<real>::of(sum / divisor);
    });
}

// `inverse` holds, for every input place of depth, height and width, where the list of the output places
// that see it begins, counted from the front of `inverse`, and how many there are.
KERNEL(256)
average_backward(const real* __restrict__ g, const int64* __restrict__ table, const int64* __restrict__ inverse,
                 int64 depth, int64 height, int64 width, int64 depth_out, int64 height_out, int64 width_out,
                 real* __restrict__ dx, int64 total)
{
    const Seen* all = reinterpret_cast<const Seen*>(table);
    sweep_all(total, false, [&](int64 i, auto) {
        Place at = place_of(i, depth, height, width);
        const real* plane = g + at.plane * depth_out * height_out * width_out;
        const int64 *d = inverse + 2 * at.d, *h = inverse + 2 * (depth + at.h), *w = inverse + 2 * (depth + height + at.w);
        wide sum = 0;
        for (int64 a = d[0]; a < d[0] + d[1]; ++a)
            for (int64 b = h[0]; b < h[0] + h[1]; ++b)
                for (int64 c = w[0]; c < w[0] + w[1]; ++c) {
                    int64 z = inverse[a], y = inverse[b], x = inverse[c];
                    wide divisor = (wide)all[z].count * (wide)all[depth_out + y].count
                                   * (wide)all[depth_out + height_out + x].count;
                    sum += widen(plane[(z * height_out + y) * width_out + x]) / divisor;
                }
        dx[i] = Rounding<real>::of(sum);
    });
}

// Of equal elements the first, and NaN is larger than all else.
KERNEL(256)
maximum_forward(const real* __restrict__ x, const int64* __restrict__ table, int64 depth, int64 height, int64 width,
                int64 depth_out, int64 height_out, int64 width_out, real* __restrict__ y, int64* __restrict__ places,
                int64 total)
{
    sweep_all(total, false, [&](int64 i, auto) {
        Place o = place_of(i, depth_out, height_out, width_out);
        const real* plane = x + o.plane * depth * height * width;
        int64 best = -1;
        wide largest = 0;
        each_in_window(table, o, depth_out, height_out, height, width, [&](int64 at) {
            wide value = widen(plane[at]);
            if (best < 0 || value > largest || (value != value && largest == largest)) best = at, largest = value;
        });
        y[i] = Rounding<real>::of(largest);
        places[i] = best;
    });
}

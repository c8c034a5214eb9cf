// The normal quantile of one random word: quantile.py, operation for operation. Its constants come from there.
#pragma once
#include "device/device.cuh"
#include "quantile_constants.cuh"

__device__ inline float logarithm(float x)
{
    int bits = __float_as_int(x) + (0x3F800000 - 0x3F3504F3);
    float exponent = (float)((bits >> 23) - 127);
    float f = __int_as_float((bits & 0x007FFFFF) + 0x3F3504F3) - 1.0f;
    float s = f / (f + 2.0f), z = s * s;
    float series = z * single_series(z), half_square = f * f * 0.5f;
    float low = s * (half_square + series) + exponent * SINGLE_LN2_LOW;
    return (low - half_square) + f + exponent * SINGLE_LN2_HIGH;
}

__device__ inline float normal_number(uint32 word)
{
    uint32 upper = word >> 31;
    uint32 odd = ((word ^ (upper * 0x7FFFFFFFu)) & 0x7FFFFFFFu) * 2 + 1;
    float tail = (float)odd * 0x1p-33f, q = 0.5f - tail, size;
    if (q <= (float)CENTRE_WIDTH) {
        float r = (float)CENTRE_SQUARE - q * q;
        size = q * (single_centre_top(r) / single_centre_bottom(r));
    } else {
        float r = sqrt(-logarithm(tail)) - (float)TAIL_SHIFT;
        size = single_tail_top(r) / single_tail_bottom(r);
    }
    return upper == 0 ? -size : size;
}

__device__ inline double logarithm(double x)
{
    int64 bits = __double_as_longlong(x) + (0x3FF0000000000000 - 0x3FE6A09E667F3BCD);
    double exponent = (double)((bits >> 52) - 1023);
    double f = __longlong_as_double((bits & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD) - 1.0;
    double s = f / (f + 2.0), z = s * s;
    double series = z * double_series(z), half_square = f * f * 0.5;
    double low = s * (half_square + series) + exponent * DOUBLE_LN2_LOW;
    return (low - half_square) + f + exponent * DOUBLE_LN2_HIGH;
}

__device__ inline double normal_number(uint64 word)
{
    uint64 upper = word >> 63;
    uint64 odd = (((word >> 11) ^ (upper * 0xFFFFFFFFFFFFF)) & 0xFFFFFFFFFFFFF) * 2 + 1;
    double tail = (double)odd * 0x1p-54, q = 0.5 - tail, size;
    if (q <= CENTRE_WIDTH) {
        double r = CENTRE_SQUARE - q * q;
        size = q * (double_centre_top(r) / double_centre_bottom(r));
    } else {
        double root = sqrt(-logarithm(tail));
        if (root <= FAR_TAIL_START) {
            double r = root - TAIL_SHIFT;
            size = double_tail_top(r) / double_tail_bottom(r);
        } else {
            double r = root - FAR_TAIL_START;
            size = double_far_top(r) / double_far_bottom(r);
        }
    }
    return upper == 0 ? -size : size;
}

// Places in up to three spatial dims, of which those that are missing come first and have one element.
#pragma once
#include "device/device.cuh"

struct Place { int64 plane, d, h, w; };

// Element number i of an array of shape (planes, depth, height, width).
__device__ inline Place place_of(int64 i, int64 depth, int64 height, int64 width)
{
    int64 row = quotient(i, width), slice = quotient(row, height), plane = quotient(slice, depth);
    return {plane, slice - plane * depth, row - slice * height, i - row * width};
}

// The numbers of a convolution, in the order of _plan in convolution_cuda.py.
struct Plan {
    int64 batch, channels;
    int64 size[3], kernel[3], out[3], stride[3], padding[3], dilation[3];
};

// The input place that output place `o` sees through kernel place `k`, or -1 if it lies outside.
__device__ inline int64 seen(const Plan& plan, int dim, int64 o, int64 k)
{
    int64 at = o * plan.stride[dim] + k * plan.dilation[dim] - plan.padding[dim];
    return at >= 0 && at < plan.size[dim] ? at : -1;
}

// The output place that sees input place `at` through kernel place `k`, or -1 if there is none.
__device__ inline int64 seeing(const Plan& plan, int dim, int64 at, int64 k)
{
    int64 steps = at + plan.padding[dim] - k * plan.dilation[dim];
    if (steps < 0) return -1;
    int64 o = quotient(steps, plan.stride[dim]);
    return o * plan.stride[dim] == steps && o < plan.out[dim] ? o : -1;
}

__device__ inline int64 volume(const int64 (&size)[3]) { return size[0] * size[1] * size[2]; }
__device__ inline int64 offset(const int64 (&size)[3], int64 d, int64 h, int64 w)
{
    return (d * size[1] + h) * size[2] + w;
}

// Calls body(o, k) for the output and kernel places, as offsets, that see the input place `at`.
template <class Body> __device__ inline void each_seeing(const Plan& plan, Place at, Body body)
{
    for (int64 i = 0; i < plan.kernel[0]; ++i) {
        int64 d = seeing(plan, 0, at.d, i);
        for (int64 j = 0; d >= 0 && j < plan.kernel[1]; ++j) {
            int64 h = seeing(plan, 1, at.h, j);
            for (int64 k = 0; h >= 0 && k < plan.kernel[2]; ++k) {
                int64 w = seeing(plan, 2, at.w, k);
                if (w >= 0) body(offset(plan.out, d, h, w), offset(plan.kernel, i, j, k));
            }
        }
    }
}

// Calls body(at, k) for the input and kernel places, as offsets, that the output place `o` sees.
template <class Body> __device__ inline void each_seen(const Plan& plan, Place o, Body body)
{
    for (int64 i = 0; i < plan.kernel[0]; ++i) {
        int64 d = seen(plan, 0, o.d, i);
        for (int64 j = 0; d >= 0 && j < plan.kernel[1]; ++j) {
            int64 h = seen(plan, 1, o.h, j);
            for (int64 k = 0; h >= 0 && k < plan.kernel[2]; ++k) {
                int64 w = seen(plan, 2, o.w, k);
                if (w >= 0) body(offset(plan.size, d, h, w), offset(plan.kernel, i, j, k));
            }
        }
    }
}

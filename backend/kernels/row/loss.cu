// Cross-entropy of rows of logits against labels; the formulas are in loss.py.
#include "device/exponentials.cuh"

// A label that is neither a class nor ignore_index gives NaN: nobody waits for the device to raise an error.
KERNEL(1024)
cross_entropy_forward(const real* __restrict__ logits, const int64* __restrict__ target, int64 ignore_index,
                      real* __restrict__ loss, wide* __restrict__ logsumexp, int64 rows, int64 classes)
{
    bool packed = aligned_rows(classes, logits);
    each_row(rows, [&](int64 i, bool mine) {
        const real* row = logits + i * classes;
        Exponentials e = exponentials(row, classes, packed);
        if (!mine || threadIdx.x != 0) return;
        wide logarithm = log(e.total);
        int64 label = target[i];
        bool is_class = 0 <= label && label < classes;
        // In this order: beside large logits, top + logarithm would lose the logarithm.
        wide value = is_class ? (e.top - widen(row[label])) + logarithm : not_a_number();
        loss[i] = Rounding<real>::of(label == ignore_index ? (wide)0 : value);
        logsumexp[i] = e.top + logarithm;
    });
}

KERNEL(1024)
cross_entropy_backward(const real* __restrict__ g, const real* __restrict__ logits, const int64* __restrict__ target,
                       const wide* __restrict__ logsumexp, int64 ignore_index, real* __restrict__ dlogits, int64 rows,
                       int64 classes)
{
    bool packed = aligned_rows(classes, logits, dlogits);
    each_row(rows, [&](int64 i, bool mine) {
        const real* row = logits + i * classes;
        int64 label = target[i];
        bool ignored = label == ignore_index;
        wide weight = ignored ? (wide)0 : widen(g[i]), shift = logsumexp[i];
        if (label < 0 || label >= classes) weight = ignored ? (wide)0 : not_a_number();
        each_in_row(mine ? classes : 0, packed, [&](int64 j, auto count) {
            auto v = load(row + j, count);
#pragma unroll
            for (int k = 0; k < count; ++k) {
                wide probability = exp(v.at[k] - shift);
                v.at[k] = ignored ? (wide)0 : (probability - (j + k == label ? (wide)1 : (wide)0)) * weight;
            }
            store(dlogits + i * classes + j, v);
        });
    });
}

// The loss, and its gradient where that of every row's loss is `expected`: the row is at hand.
KERNEL(1024)
cross_entropy_and_slope(const real* __restrict__ logits, const int64* __restrict__ target, int64 ignore_index,
                        double expected, real* __restrict__ loss, wide* __restrict__ slope, int64 rows, int64 classes)
{
    bool packed = aligned_rows(classes, logits, slope);
    each_row(rows, [&](int64 i, bool mine) {
        const real* row = logits + i * classes;
        Exponentials e = exponentials(row, classes, packed);
        wide share = (wide)1 / e.total;
        int64 label = target[i];
        bool ignored = label == ignore_index, is_class = 0 <= label && label < classes;
        wide weight = is_class ? (wide)expected : not_a_number();
        if (mine && threadIdx.x == 0) {
            wide value = is_class ? (e.top - widen(row[label])) + log(e.total) : not_a_number();
            loss[i] = Rounding<real>::of(ignored ? (wide)0 : value);
        }
        each_in_row(mine ? classes : 0, packed, [&](int64 j, auto count) {
            auto v = load(row + j, count);
#pragma unroll
            for (int k = 0; k < count; ++k) {
                wide probability = exp(v.at[k] - e.top) * share;
                v.at[k] = ignored ? (wide)0 : (probability - (j + k == label ? (wide)1 : (wide)0)) * weight;
            }
            store_wide(slope + i * classes + j, v);
        });
    });
}

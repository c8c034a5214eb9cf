// Cross-entropy with class weights, smoothed labels or probabilities; the formulas are in weighted_loss.py.
#include "device/exponentials.cuh"

// A label that is neither a class nor ignore_index gives NaN, as in loss.cu. Without weights they are 1.
KERNEL(1024)
weighted_cross_entropy_forward(const real* __restrict__ logits, const int64* __restrict__ target,
                               const real* __restrict__ weight, int64 ignore_index, double smoothing,
                               real* __restrict__ loss, wide* __restrict__ logsumexp, int64 rows, int64 classes)
{
    bool packed = aligned_rows(classes, logits, weight);
    wide own = (wide)(1 - smoothing), every = (wide)(smoothing / classes);
    each_row(rows, [&](int64 i, bool mine) {
        const real* row = logits + i * classes;
        Exponentials e = exponentials(row, classes, packed);
        wide logarithm = log(e.total), sum = 0;
        if (smoothing != 0) {
            each_in_row(classes, packed, [&](int64 j, auto count) {
                auto v = load(row + j, count);
                // In this order: beside large logits, top + logarithm would lose the logarithm.
#pragma unroll
                for (int k = 0; k < count; ++k) v.at[k] = (e.top - v.at[k]) + logarithm;
                if (weight) {
                    auto w = load(weight + j, count);
#pragma unroll
                    for (int k = 0; k < count; ++k) v.at[k] *= w.at[k];
                }
#pragma unroll
                for (int k = 0; k < count; ++k) sum += v.at[k];
            });
            sum = sum_over_team(sum);
        }
        if (!mine || threadIdx.x != 0) return;
        int64 label = target[i];
        wide value = not_a_number();
        if (0 <= label && label < classes) {
            value = ((e.top - widen(row[label])) + logarithm) * own;
            if (weight) value *= widen(weight[label]);
            if (smoothing != 0) value += sum * every;
        }
        loss[i] = Rounding<real>::of(label == ignore_index ? (wide)0 : value);
        logsumexp[i] = e.top + logarithm;
    });
}

// total: the sum of smoothing / classes times the weights, one number.
KERNEL(1024)
weighted_cross_entropy_backward(const real* __restrict__ logits, const real* __restrict__ g,
                                const int64* __restrict__ target, const real* __restrict__ weight,
                                const wide* __restrict__ logsumexp, const wide* __restrict__ total, int64 ignore_index,
                                double smoothing, real* __restrict__ dlogits, int64 rows, int64 classes)
{
    bool packed = aligned_rows(classes, logits, dlogits, weight);
    wide every = (wide)(smoothing / classes);
    each_row(rows, [&](int64 i, bool mine) {
        const real* row = logits + i * classes;
        int64 label = target[i];
        bool ignored = label == ignore_index, is_class = 0 <= label && label < classes;
        wide own = (wide)(1 - smoothing);
        if (weight && is_class) own *= widen(weight[label]);
        wide factor = ignored ? (wide)0 : is_class ? widen(g[i]) : not_a_number();
        wide shift = logsumexp[i], all = own + *total;
        each_in_row(mine ? classes : 0, packed, [&](int64 j, auto count) {
            auto v = load(row + j, count);
            auto share = v;
#pragma unroll
            for (int k = 0; k < count; ++k) share.at[k] = 1;
            if (weight) share = load(weight + j, count);
#pragma unroll
            for (int k = 0; k < count; ++k) {
                wide slope = exp(v.at[k] - shift) * all - (j + k == label ? own : (wide)0);
                if (smoothing != 0) slope -= share.at[k] * every;
                v.at[k] = ignored ? (wide)0 : slope * factor;
            }
            store(dlogits + i * classes + j, v);
        });
    });
}

// ---- against probabilities, smoothed and weighted

// What counts of a class: probabilities are multiplied by `keep` and moved by `shift` first.
template <int N>
__device__ inline Values<N> shares(const real* target, const real* weight, wide keep, wide shift, int64 j, Count<N> count)
{
    auto p = load(target + j, count);
#pragma unroll
    for (int k = 0; k < N; ++k) p.at[k] = p.at[k] * keep + shift;
    if (weight) {
        auto w = load(weight + j, count);
#pragma unroll
        for (int k = 0; k < N; ++k) p.at[k] *= w.at[k];
    }
    return p;
}

KERNEL(1024)
soft_cross_entropy_forward(const real* __restrict__ logits, const real* __restrict__ target,
                           const real* __restrict__ weight, double smoothing, real* __restrict__ loss,
                           wide* __restrict__ logsumexp, int64 rows, int64 classes)
{
    bool packed = aligned_rows(classes, logits, target, weight);
    wide keep = (wide)(1 - smoothing), shift = (wide)(smoothing / classes);
    each_row(rows, [&](int64 i, bool mine) {
        const real* row = logits + i * classes;
        Exponentials e = exponentials(row, classes, packed);
        wide logarithm = log(e.total), sum = 0;
        each_in_row(classes, packed, [&](int64 j, auto count) {
            auto v = load(row + j, count), p = shares(target + i * classes, weight, keep, shift, j, count);
#pragma unroll
            for (int k = 0; k < count; ++k) sum += ((e.top - v.at[k]) + logarithm) * p.at[k];
        });
        sum = sum_over_team(sum);
        if (mine && threadIdx.x == 0) loss[i] = Rounding<real>::of(sum), logsumexp[i] = e.top + logarithm;
    });
}

KERNEL(1024)
soft_cross_entropy_backward(const real* __restrict__ logits, const real* __restrict__ g,
                            const real* __restrict__ target, const real* __restrict__ weight,
                            const wide* __restrict__ logsumexp, double smoothing, real* __restrict__ dlogits,
                            int64 rows, int64 classes)
{
    bool packed = aligned_rows(classes, logits, target, weight, dlogits);
    wide keep = (wide)(1 - smoothing), shift = (wide)(smoothing / classes);
    each_row(rows, [&](int64 i, bool mine) {
        const real *row = logits + i * classes, *given = target + i * classes;
        wide total = 0;
        each_in_row(classes, packed, [&](int64 j, auto count) {
            auto p = shares(given, weight, keep, shift, j, count);
#pragma unroll
            for (int k = 0; k < count; ++k) total += p.at[k];
        });
        total = sum_over_team(total);
        wide factor = widen(g[i]), normaliser = logsumexp[i];
        each_in_row(mine ? classes : 0, packed, [&](int64 j, auto count) {
            auto v = load(row + j, count), p = shares(given, weight, keep, shift, j, count);
#pragma unroll
            for (int k = 0; k < count; ++k) v.at[k] = (exp(v.at[k] - normaliser) * total - p.at[k]) * factor;
            store(dlogits + i * classes + j, v);
        });
    });
}

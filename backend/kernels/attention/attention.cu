// The weights of attention from products of queries and keys, in place, and their gradients; see attention.py.
//
// A row belongs to one query: row number r of a block is query first + r % block of the leading index r / block.
#include "device/philox.cuh"
#include "device/team.cuh"

// What is added to scores, or hides them: an array that broadcasts over leading dims, queries and keys.
template <class T> struct Broadcast {
    const T* place;
    const int64* starts;  // per leading index; none if there is one start for all
    int64 row_step, column_step;

    __device__ const T* row(int64 lead, int64 query) const
    {
        return place ? place + (starts ? starts[lead] : 0) + query * row_step : nullptr;
    }
};

// Which weights are dropped: those whose random word is below the threshold.
struct Dropping {
    uint64 seed, stream;
    int64 offset, threshold;
    wide scale;

    __device__ bool keeps(int64 i) const
    {
        uint64 at = offset + i;
        Words words = philox(at / 4, seed, stream);
        // Not by an index, for which the words would have to lie in memory.
        uint32 low = at & 1 ? words.at[1] : words.at[0], high = at & 1 ? words.at[3] : words.at[2];
        return (int64)(at & 2 ? high : low) >= threshold;
    }
};

// A score with what is added to it, -inf where the key takes no part.
__device__ inline wide score(const real* scores, const real* bias, int64 bias_step, const bool* mask, int64 mask_step,
                             int64 visible, int64 j)
{
    if (j >= visible || (mask && !mask[j * mask_step])) return -infinity();
    return bias ? widen(scores[j]) + widen(bias[j * bias_step]) : widen(scores[j]);
}

// scores: (leads, block, seen), of `keys` keys in all; peak and share: (leads, queries). With a threshold of 0
// nothing is dropped.
KERNEL(1024)
attention_weights(real* scores, const real* __restrict__ bias, const int64* __restrict__ bias_starts, int64 bias_row,
                  int64 bias_column, const bool* __restrict__ mask, const int64* __restrict__ mask_starts,
                  int64 mask_row, int64 mask_column, real* __restrict__ peak, real* __restrict__ share, double units,
                  int64 causal, int64 first, int64 block, int64 queries, int64 keys, uint64 seed, uint64 stream,
                  int64 offset, int64 threshold, double scale, int64 rows, int64 seen)
{
    Broadcast<real> added = {bias, bias_starts, bias_row, bias_column};
    Broadcast<bool> hiding = {mask, mask_starts, mask_row, mask_column};
    Dropping dropping = {seed, stream, offset, threshold, (wide)scale};
    wide unit = (wide)units;
    each_row(rows, [&](int64 r, bool mine) {
        int64 lead = quotient(r, block), query = first + r - lead * block, at = lead * queries + query;
        int64 visible = causal && query + 1 < seen ? query + 1 : seen;
        real* row = scores + r * seen;
        const real* extra = added.row(lead, query);
        const bool* shown = hiding.row(lead, query);
        auto value = [&](int64 j) { return score(row, extra, bias_column, shown, mask_column, visible, j); };

        Pair e = {-infinity(), 0};  // the largest score, and the sum of exponentials beside it
        each_in_row(seen, false, [&](int64 j, auto) {
            wide x = value(j);
            if (x > e.a) e = {x, e.b * exp((e.a - x) * unit)};
            e.b += x == -infinity() ? (wide)0 : exp((x - e.a) * unit);
        });
        e = over_team(e, [&](Pair x, Pair y) {
            wide top = x.a < y.a ? y.a : x.a, shift = top == -infinity() ? (wide)0 : top;
            return Pair{top, x.b * exp((x.a - shift) * unit) + y.b * exp((y.a - shift) * unit)};
        });
        wide top = e.a == -infinity() ? (wide)0 : e.a, part = e.b == 0 ? (wide)0 : (wide)1 / e.b;
        if (mine && threadIdx.x == 0) peak[at] = Rounding<real>::of(top), share[at] = Rounding<real>::of(part);
        each_in_row(mine ? seen : 0, false, [&](int64 j, auto) {
            wide weight = exp((value(j) - top) * unit) * part;
            if (threshold) weight = dropping.keeps(at * keys + j) ? weight * dropping.scale : (wide)0;
            row[j] = Rounding<real>::of(weight);
        });
    });
}

// From scores to the weights that counted, and from the gradient of those to that of the scores, both in place.
KERNEL(256)
attention_gradients(real* scores, real* gradients, const real* __restrict__ bias,
                    const int64* __restrict__ bias_starts, int64 bias_row, int64 bias_column,
                    const bool* __restrict__ mask, const int64* __restrict__ mask_starts, int64 mask_row,
                    int64 mask_column, const real* __restrict__ peak, const real* __restrict__ share,
                    const real* __restrict__ along, double units, int64 causal, int64 first, int64 block,
                    int64 queries, int64 keys, uint64 seed, uint64 stream, int64 offset, int64 threshold, double scale,
                    int64 rows, int64 seen)
{
    Broadcast<real> added = {bias, bias_starts, bias_row, bias_column};
    Broadcast<bool> hiding = {mask, mask_starts, mask_row, mask_column};
    Dropping dropping = {seed, stream, offset, threshold, (wide)scale};
    wide unit = (wide)units;
    sweep_all(rows * seen, false, [&](int64 i, auto) {
        int64 r = quotient(i, seen), j = i - r * seen;
        int64 lead = quotient(r, block), query = first + r - lead * block, at = lead * queries + query;
        int64 visible = causal && query + 1 < seen ? query + 1 : seen;
        wide x = score(scores + r * seen, added.row(lead, query), bias_column, hiding.row(lead, query), mask_column,
                       visible, j);
        wide weight = exp((x - widen(peak[at])) * unit) * widen(share[at]);
        wide factor = threshold == 0 ? (wide)1 : dropping.keeps(at * keys + j) ? dropping.scale : (wide)0;
        wide gradient = factor == 0 ? (wide)0 : widen(gradients[i]) * factor;
        scores[i] = Rounding<real>::of(factor == 0 ? (wide)0 : weight * factor);
        gradients[i] = Rounding<real>::of(weight * (gradient - widen(along[at])));
    });
}

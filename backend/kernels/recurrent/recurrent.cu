// One step of recurrent units for all sequences, forward and backward; the formulas are in lstm.py and gru.py.
//
// Matrix products lie between the steps, so a step is one launch over (rows, units). Where `seen` is given and
// false for a row, the row has no such step: its state stays, and nothing flows through.
#include "device/formula.cuh"

__device__ inline bool has(const bool* seen, int64 row) { return !seen || seen[row]; }

// x and side: (rows, 4 units), what inputs and state add to the gates i, f, g, o, which go to `gates`.
// before: (rows, units), the cell. Without a projection `old` is the state before, and `state` the one after;
// with one, old is null, and the state is worked out from what is written there.
KERNEL(256)
lstm_step(const real* __restrict__ x, const real* __restrict__ side, const real* __restrict__ before,
          const real* __restrict__ old, const bool* __restrict__ seen, real* __restrict__ gates,
          real* __restrict__ cell, real* __restrict__ state, int64 units, int64 total)
{
    sweep_all(total, false, [&](int64 at, auto) {
        int64 row = quotient(at, units), first = row * 4 * units + (at - row * units);
        auto gate = [&](int64 k) { return widen(x[first + k * units]) + widen(side[first + k * units]); };
        wide i = sigmoid(gate(0)), f = sigmoid(gate(1)), g = tanh(gate(2)), o = sigmoid(gate(3));
        wide c = widen(before[at]);
        if (has(seen, row)) c = f * c + i * g;
        gates[first] = Rounding<real>::of(i), gates[first + units] = Rounding<real>::of(f);
        gates[first + 2 * units] = Rounding<real>::of(g), gates[first + 3 * units] = Rounding<real>::of(o);
        cell[at] = Rounding<real>::of(c);
        state[at] = old && !has(seen, row) ? old[at] : Rounding<real>::of(o * tanh(c));
    });
}

// inner: the gradient of o * tanh(cell); flowing: that of the cell, which becomes that of the cell before.
KERNEL(256)
lstm_step_backward(const real* __restrict__ inner, real* __restrict__ flowing, const real* __restrict__ before,
                   const real* __restrict__ gates, const real* __restrict__ cell, const bool* __restrict__ seen,
                   real* __restrict__ into, int64 units, int64 total)
{
    sweep_all(total, false, [&](int64 at, auto) {
        int64 row = quotient(at, units), first = row * 4 * units + (at - row * units);
        wide i = widen(gates[first]), f = widen(gates[first + units]), g = widen(gates[first + 2 * units]);
        wide o = widen(gates[first + 3 * units]), squashed = tanh(widen(cell[at])), gradient = widen(inner[at]);
        wide d = widen(flowing[at]) + gradient * o * ((wide)1 - squashed * squashed);
        wide results[4] = {d * g * i * ((wide)1 - i), d * widen(before[at]) * f * ((wide)1 - f),
                           d * i * ((wide)1 - g * g), gradient * squashed * o * ((wide)1 - o)};
        bool there = has(seen, row);
#pragma unroll
        for (int k = 0; k < 4; ++k) into[first + k * units] = Rounding<real>::of(there ? results[k] : (wide)0);
        if (there) flowing[at] = Rounding<real>::of(d * f);
    });
}

// x and side: (rows, 3 units), of r, z and the new value; side without the bias, which may be null.
KERNEL(256)
gru_step(const real* __restrict__ x, const real* __restrict__ side, const real* __restrict__ bias,
         const real* __restrict__ old, const bool* __restrict__ seen, real* __restrict__ gates,
         real* __restrict__ fresh, real* __restrict__ sides, real* __restrict__ state, int64 units, int64 total)
{
    sweep_all(total, false, [&](int64 at, auto) {
        int64 row = quotient(at, units), unit = at - row * units, first = row * 3 * units + unit;
        auto part = [&](int64 k) {
            wide value = widen(side[first + k * units]);
            return bias ? value + widen(bias[unit + k * units]) : value;
        };
        wide r = sigmoid(widen(x[first]) + part(0)), z = sigmoid(widen(x[first + units]) + part(1)), s = part(2);
        wide n = tanh(widen(x[first + 2 * units]) + r * s), h = widen(old[at]);
        gates[row * 2 * units + unit] = Rounding<real>::of(r);
        gates[(row * 2 + 1) * units + unit] = Rounding<real>::of(z);
        fresh[at] = Rounding<real>::of(n), sides[at] = Rounding<real>::of(s);
        state[at] = has(seen, row) ? Rounding<real>::of(n + z * (h - n)) : old[at];
    });
}

// total: the gradient of the state; through: what of it goes straight to the state before.
KERNEL(256)
gru_step_backward(const real* __restrict__ total, const real* __restrict__ old, const real* __restrict__ gates,
                  const real* __restrict__ fresh, const real* __restrict__ sides, const bool* __restrict__ seen,
                  real* __restrict__ into, real* __restrict__ aside, real* __restrict__ through, int64 units,
                  int64 count)
{
    sweep_all(count, false, [&](int64 at, auto) {
        int64 row = quotient(at, units), unit = at - row * units, first = row * 3 * units + unit;
        wide r = widen(gates[row * 2 * units + unit]), z = widen(gates[(row * 2 + 1) * units + unit]);
        wide n = widen(fresh[at]), gradient = widen(total[at]);
        wide d_n = gradient * ((wide)1 - z) * ((wide)1 - n * n);
        wide d_z = gradient * (widen(old[at]) - n) * z * ((wide)1 - z);
        wide d_r = d_n * widen(sides[at]) * r * ((wide)1 - r);
        if (!has(seen, row)) d_n = d_z = d_r = 0;
        into[first] = aside[first] = Rounding<real>::of(d_r);
        into[first + units] = aside[first + units] = Rounding<real>::of(d_z);
        into[first + 2 * units] = Rounding<real>::of(d_n);
        aside[first + 2 * units] = Rounding<real>::of(d_n * r);
        through[at] = Rounding<real>::of(gradient * z);
    });
}

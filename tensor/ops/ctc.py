"""Connectionist temporal classification (Graves et al. 2006): labels without an alignment to the frames.

    t frames, n sequences, c classes, s labels; e = 2 s + 1 places: the labels with blanks around them

Sums over alignments run in logarithms, with a large negative number for what cannot be, so that
the formulas have a gradient everywhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardwise.backend import special
from shardwise.backend.array import Array
from shardwise.tensor.function import Context, Function, Gradients

__all__ = ["Ctc"]

_NEVER = -1e30
_IMPOSSIBLE = -1e29  # a sum of anything with _NEVER is below it


class Ctc(Function):
    """Per sequence, minus the logarithm of the probability of its labels, summed over all alignments.

    The labels must be in range, and the lengths within the shapes. The gradient is the true one with
    respect to the log-probabilities, and zero where no alignment fits.
    """

    signature = "[t]n[c],n[s],n,n->n"
    precision = "wide"

    @staticmethod
    def forward(
        ctx: Context, log_probs: Array, labels: Array, frames: Array, lengths: Array, blank: int
    ) -> Array:
        ctx.blank = blank
        places = _places(labels, lengths, blank)
        alphas = np.stack(_alphas(_emissions(log_probs, places), frames, places[1]), axis=0)
        ctx.save(log_probs, labels, frames, lengths, alphas)
        likelihood = _likelihood(alphas[-1], frames, lengths)
        return np.where(likelihood < _IMPOSSIBLE, math.inf, -likelihood)

    @staticmethod
    def backward(ctx: Context, g: Array) -> Gradients:
        log_probs, labels, frames, lengths, alphas = ctx.saved
        places = _places(labels, lengths, ctx.blank)
        emissions = _emissions(log_probs, places)
        if alphas is None:
            alphas = np.stack(_alphas(emissions, frames, places[1]), axis=0)
        betas = np.stack(_betas(emissions, frames, lengths, places[1]), axis=0)
        likelihood = _likelihood(alphas[-1], frames, lengths)
        occurs = (likelihood >= _IMPOSSIBLE) & (_times(emissions) < frames)  # t, n
        exponent = alphas + betas - np.expand_dims(likelihood, (0, 2))
        occupied = np.exp(np.where(np.expand_dims(occurs, 2), exponent, _NEVER))  # t, n, e
        weighted = -occupied * np.expand_dims(g, (0, 2))
        t, n, c = log_probs.shape
        at_t = np.reshape(np.arange(t, like=labels), (t, 1, 1))
        at_n = np.reshape(np.arange(n, like=labels), (1, n, 1))
        key = (at_t, at_n, np.expand_dims(places[0], 0))
        return special.scatter_add((t, n, c), key, weighted), None, None, None


def _places(labels: Any, lengths: Any, blank: int) -> tuple[Any, Any]:
    """Return the class at each place, and where a place can be reached from two before: n, e both."""
    n, s = labels.shape
    inside = np.arange(s, like=labels) < np.expand_dims(lengths, 1)
    kept = np.where(inside, labels, blank)
    blanks = np.full_like(kept, blank)
    pairs = np.reshape(np.stack([blanks, kept], axis=2), (n, 2 * s))
    classes = np.concatenate([pairs, np.full_like(labels, blank, shape=(n, 1))], axis=1)
    before = np.concatenate([np.full_like(labels, blank, shape=(n, 2)), classes], axis=1)[:, : 2 * s + 1]
    return classes, (classes != blank) & (classes != before)


def _emissions(log_probs: Any, places: tuple[Any, Any]) -> Any:
    """Return the log-probability of each place in each frame: t, n, e."""
    t = log_probs.shape[0]
    index = np.broadcast_to(np.expand_dims(places[0], 0), (t, *places[0].shape))
    return np.maximum(np.take_along_axis(log_probs, index, axis=2), _NEVER)


def _times(emissions: Any) -> Any:
    return np.expand_dims(np.arange(emissions.shape[0], like=emissions), 1)


def _alphas(emissions: Any, frames: Any, skips: Any) -> list[Any]:
    """Return, per frame, the log-probability of all that is emitted until then, ending in each place."""
    first = np.arange(emissions.shape[2], like=emissions) < 2
    alpha = np.where(first, emissions[0], _NEVER)
    alphas = [alpha]
    wall = np.full_like(emissions[0][:, :1], _NEVER)
    for t in range(1, emissions.shape[0]):
        padded = np.concatenate([wall, wall, alpha], axis=1)
        jumped = np.where(skips, padded[:, :-2], _NEVER)
        moved = emissions[t] + _log_sum(alpha, padded[:, 1:-1], jumped)
        alpha = np.where(np.expand_dims(frames > t, 1), moved, alpha)
        alphas.append(alpha)
    return alphas


def _betas(emissions: Any, frames: Any, lengths: Any, skips: Any) -> list[Any]:
    """Return, per frame, the log-probability of all that is emitted after it, starting from each place."""
    places = np.arange(emissions.shape[2], like=lengths)
    last = np.expand_dims(2 * lengths, 1)
    final = np.where((places == last) | (places == last - 1), 0.0, np.full_like(emissions[0], _NEVER))
    wall = np.full_like(emissions[0][:, :1], _NEVER)
    beta = final
    betas = [beta]
    onto = np.concatenate([skips[:, 2:], np.zeros_like(skips[:, :2])], axis=1)[:, : emissions.shape[2]]
    for t in range(emissions.shape[0] - 2, -1, -1):
        padded = np.concatenate([beta + emissions[t + 1], wall, wall], axis=1)
        jumped = np.where(onto, padded[:, 2:], _NEVER)
        moved = _log_sum(padded[:, :-2], padded[:, 1:-1], jumped)
        beta = np.where(np.expand_dims(frames > t + 1, 1), moved, final)
        betas.append(beta)
    return betas[::-1]


def _likelihood(alpha: Any, frames: Any, lengths: Any) -> Any:
    """Return the log-probability of ending in the last label or the blank behind it."""
    last = np.expand_dims(2 * lengths, 1)
    blank = np.take_along_axis(alpha, last, axis=1)
    label = np.take_along_axis(alpha, np.maximum(last - 1, 0), axis=1)
    label = np.where(last > 0, label, _NEVER)
    likelihood = np.squeeze(_log_sum(blank, label), axis=1)
    return np.where(frames > 0, likelihood, np.where(lengths > 0, _NEVER, np.zeros_like(likelihood)))


def _log_sum(first: Any, *others: Any) -> Any:
    highest = first
    for other in others:
        highest = np.maximum(highest, other)
    total = np.exp(first - highest)
    for other in others:
        total = total + np.exp(other - highest)
    return highest + np.log(total)

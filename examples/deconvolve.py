"""Sharpen a photograph by gradients through sharded transforms: shardwise run -n 2 examples/deconvolve.py

The photograph (one that ships with scikit-learn) lies over the ranks by rows. Fourier transforms go along the
dim that every rank has whole, so that a transform of both dims changes from rows to columns in between: two
all-to-alls per blur, and two more for its gradient, however many ranks there are.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_sample_image

import shardwise as sw
from shardwise import dtensor, optim
from shardwise.dtensor import DTensor, Shard

ROWS, COLUMNS = [Shard(0)], [Shard(1)]


def lens(shape: tuple[int, int], width: float) -> np.ndarray:
    """Return the Fourier transform of a Gaussian blur: what is left of each frequency, shape as the image."""
    down, across = (np.fft.fftfreq(n) for n in shape)
    squares = down[:, None] ** 2 + across**2
    return np.exp(-2.0 * (np.pi * width) ** 2 * squares).astype(np.complex64)


def to_frequencies(image: DTensor) -> DTensor:
    """Transform an image that lies by rows; its frequencies lie by columns."""
    return sw.fft.fft(sw.fft.fft(image, dim=1).redistribute(COLUMNS), dim=0)


def to_image(frequencies: DTensor) -> DTensor:
    """Transform frequencies that lie by columns; the image lies by rows."""
    return sw.fft.ifft(sw.fft.ifft(frequencies, dim=0).redistribute(ROWS), dim=1).real


def quality(image: DTensor, photograph: DTensor) -> float:
    """Return the ratio of peak signal to noise, in decibels: more is better."""
    return float(-10.0 * np.log10(((image - photograph) ** 2).mean().item()))


def main(argv: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="china.jpg", help="or flower.jpg")
    parser.add_argument("--width", type=float, default=1.5, help="of the blur, in pixels")
    parser.add_argument("--noise", type=float, default=0.002)
    parser.add_argument("--every", type=int, default=1, help="take every n-th pixel")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--lr", type=float, default=0.02)
    args = parser.parse_args(argv)

    mesh = sw.init_device_mesh("cpu", (-1,))
    sw.manual_seed(0)
    gray = load_sample_image(args.name)[:: args.every, :: args.every].mean(axis=2).astype(np.float32) / 255.0
    photograph = dtensor.distribute_tensor(sw.tensor(gray), mesh, ROWS)
    kept = dtensor.distribute_tensor(sw.tensor(lens(gray.shape, args.width)), mesh, COLUMNS)
    noise = dtensor.randn(gray.shape, device_mesh=mesh, placements=ROWS)  # the same on any number of ranks
    with sw.no_grad():
        blurred = to_image(to_frequencies(photograph) * kept) + args.noise * noise

    image = blurred.clone().requires_grad_()  # where the search begins
    optimizer = optim.Adam([image], lr=args.lr)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    for step in range(args.steps):
        again = to_image(to_frequencies(image) * kept)
        loss = ((again - blurred) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 10 == 9:
            off = loss.item() ** 0.5  # puts the terms of all ranks together, so that all call it
            if sw.rank() == 0:
                print(f"step {step + 1}: blurred again it is off by {off:.5f}", flush=True)
    before, after = quality(blurred, photograph), quality(image.detach(), photograph)
    if sw.rank() == 0:
        size = " x ".join(map(str, gray.shape))
        print(f"{args.name}, {size} pixels: from {before:.2f} to {after:.2f} dB", flush=True)
    return after


if __name__ == "__main__":
    main()

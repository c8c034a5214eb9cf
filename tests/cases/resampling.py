"""Calls of what changes the size of images, in float64, small enough for finite differences."""

from __future__ import annotations

from cases.operand import Case, make
from shardwise.nn import functional as F

__all__ = ["CASES"]

CASES: dict[str, Case] = {
    "interpolate nearest": (lambda x: F.interpolate(x, 5), (make(2, 1, 3),)),
    "interpolate nearest-exact": (
        lambda x: F.interpolate(x, (2, 5), mode="nearest-exact"),
        (make(1, 1, 3, 3),),
    ),
    "interpolate linear": (lambda x: F.interpolate(x, scale_factor=2.5, mode="linear"), (make(2, 2, 3),)),
    "interpolate bilinear": (lambda x: F.interpolate(x, (4, 2), mode="bilinear"), (make(1, 2, 2, 4),)),
    "interpolate corners": (
        lambda x: F.interpolate(x, (4, 1), mode="bilinear", align_corners=True),
        (make(1, 1, 2, 3),),
    ),
    "interpolate bicubic": (lambda x: F.interpolate(x, (3, 5), mode="bicubic"), (make(1, 1, 4, 3),)),
    "interpolate antialias": (
        lambda x: F.interpolate(x.transpose(2, 3), 2, mode="bicubic", antialias=True),
        (make(1, 1, 5, 4),),
    ),
    "interpolate trilinear": (
        lambda x: F.interpolate(x, (2, 1, 3), mode="trilinear"),
        (make(1, 1, 2, 2, 2),),
    ),
    "interpolate area": (lambda x: F.interpolate(x, (2, 3), mode="area"), (make(1, 1, 3, 4),)),
    "interpolate no images": (lambda x: F.interpolate(x, 4, mode="linear"), (make(0, 1, 3),)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (make(2, 4, 1, 2),)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (make(1, 2, 4),)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), (make(1, 4, 2),)),
    "affine_grid": (lambda t: F.affine_grid(t, (2, 1, 2, 3)), (make(2, 2, 3),)),
    "affine_grid corners": (lambda t: F.affine_grid(t, (1, 1, 2, 1, 3), True), (make(1, 3, 4),)),
    "grid_sample": (F.grid_sample, (make(1, 2, 3, 3), make(1, 2, 2, 2))),
    "grid_sample border": (
        lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True),
        (make(1, 1, 3, 2), make(1, 2, 2, 2)),
    ),
    "grid_sample reflection": (
        lambda x, g: F.grid_sample(x, g, padding_mode="reflection"),
        (make(1, 1, 3, 2), make(1, 2, 2, 2)),
    ),
    "grid_sample nearest": (lambda x: F.grid_sample(x, make(1, 2, 2, 2), "nearest"), (make(1, 1, 3, 2),)),
    "grid_sample bicubic": (
        lambda x, g: F.grid_sample(x, g, "bicubic"),
        (make(1, 1, 3, 4), make(1, 1, 2, 2)),
    ),
    "grid_sample volume": (F.grid_sample, (make(1, 1, 2, 2, 3), make(1, 1, 1, 2, 3))),
}

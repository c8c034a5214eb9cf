"""Learning rates that change from step to step."""

from shardwise.optim.lr_scheduler.composite import ChainedScheduler, SequentialLR
from shardwise.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts, CosineWarmupLR
from shardwise.optim.lr_scheduler.cyclic import CyclicLR
from shardwise.optim.lr_scheduler.decay import (
    ConstantLR,
    ExponentialLR,
    LinearLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from shardwise.optim.lr_scheduler.function import LambdaLR, MultiplicativeLR
from shardwise.optim.lr_scheduler.one_cycle import OneCycleLR
from shardwise.optim.lr_scheduler.plateau import ReduceLROnPlateau
from shardwise.optim.lr_scheduler.scheduler import LRScheduler

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CosineWarmupLR",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

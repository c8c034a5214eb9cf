"""Floor 3: optimizers and learning-rate schedules."""

from shardwise.optim import lr_scheduler
from shardwise.optim.adadelta import Adadelta
from shardwise.optim.adafactor import Adafactor
from shardwise.optim.adagrad import Adagrad
from shardwise.optim.adam import Adam, AdamW
from shardwise.optim.adamax import Adamax
from shardwise.optim.lamb import LAMB
from shardwise.optim.lion import Lion
from shardwise.optim.lr_scheduler import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CosineWarmupLR,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiplicativeLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)
from shardwise.optim.moving_average import ExponentialMovingAverage
from shardwise.optim.nadam import NAdam
from shardwise.optim.optimizer import Optimizer
from shardwise.optim.radam import RAdam
from shardwise.optim.rmsprop import RMSprop
from shardwise.optim.sgd import SGD

__all__ = [
    "LAMB",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CosineWarmupLR",
    "CyclicLR",
    "ExponentialLR",
    "ExponentialMovingAverage",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "Lion",
    "MultiStepLR",
    "MultiplicativeLR",
    "NAdam",
    "OneCycleLR",
    "Optimizer",
    "PolynomialLR",
    "RAdam",
    "RMSprop",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "lr_scheduler",
]

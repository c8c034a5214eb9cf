"""Floor 3: optimizers and learning-rate schedules."""

from shardwise.optim import lr_scheduler
from shardwise.optim.adadelta import Adadelta
from shardwise.optim.adafactor import Adafactor
from shardwise.optim.adagrad import Adagrad
from shardwise.optim.adam import Adam, AdamW
from shardwise.optim.adamax import Adamax
from shardwise.optim.lamb import LAMB
from shardwise.optim.lion import Lion
from shardwise.optim.lr_scheduler import CosineWarmupLR, LambdaLR, LRScheduler
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
    "CosineWarmupLR",
    "LRScheduler",
    "LambdaLR",
    "Lion",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "lr_scheduler",
]

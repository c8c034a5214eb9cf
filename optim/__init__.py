"""Floor 3: optimizers and learning-rate schedules."""

from shardwise.optim import lr_scheduler
from shardwise.optim.adamw import AdamW
from shardwise.optim.lr_scheduler import CosineWarmupLR, LambdaLR, LRScheduler
from shardwise.optim.optimizer import Optimizer

__all__ = ["AdamW", "CosineWarmupLR", "LRScheduler", "LambdaLR", "Optimizer", "lr_scheduler"]

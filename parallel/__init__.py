"""Floor 5: data and tensor parallelism."""

from shardwise.parallel.bucket import BucketPlan, plan_buckets
from shardwise.parallel.ddp import DistributedDataParallel
from shardwise.parallel.loss import loss_parallel
from shardwise.parallel.parallelize import parallelize_module
from shardwise.parallel.prepare import PrepareModuleInput, PrepareModuleInputOutput, PrepareModuleOutput
from shardwise.parallel.sampler import DistributedSampler, local_rows
from shardwise.parallel.style import ColwiseParallel, ParallelStyle, RowwiseParallel, SequenceParallel

__all__ = [
    "BucketPlan", "ColwiseParallel", "DistributedDataParallel", "DistributedSampler", "ParallelStyle",
    "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput", "RowwiseParallel",
    "SequenceParallel", "local_rows", "loss_parallel", "parallelize_module", "plan_buckets",
]  # fmt: skip

"""Floor 5: data parallelism."""

from shardwise.parallel.bucket import BucketPlan, plan_buckets
from shardwise.parallel.ddp import DistributedDataParallel
from shardwise.parallel.sampler import DistributedSampler, local_rows

__all__ = ["BucketPlan", "DistributedDataParallel", "DistributedSampler", "local_rows", "plan_buckets"]

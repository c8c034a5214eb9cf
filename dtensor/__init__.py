"""Floor 4: placements, layouts, redistribution, sharding rules, DTensor."""

from shardwise.dtensor.construct import distribute_tensor
from shardwise.dtensor.dtensor import DTensor
from shardwise.dtensor.layout import Box, Layout
from shardwise.dtensor.local import from_local
from shardwise.dtensor.parameter import ShardedBuffer, ShardedParameter
from shardwise.dtensor.placement import Partial, Placement, Replicate, Shard, Spec
from shardwise.dtensor.policy import implicit_replication
from shardwise.dtensor.redistribute.calibration import load_link_costs
from shardwise.dtensor.redistribute.cost import LinkCosts, set_link_costs
from shardwise.dtensor.redistribute.plan import Plan, plan
from shardwise.dtensor.replica import check_replicas

__all__ = [
    "Box", "DTensor", "Layout", "LinkCosts", "Partial", "Placement", "Plan", "Replicate", "Shard",
    "ShardedBuffer", "ShardedParameter", "Spec", "check_replicas", "distribute_tensor", "from_local",
    "implicit_replication", "load_link_costs", "plan", "set_link_costs",
]  # fmt: skip

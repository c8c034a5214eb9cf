"""Floor 4: placements, layouts, redistribution, sharding rules, DTensor."""

from shardwise.dtensor.construct import distribute_tensor
from shardwise.dtensor.dtensor import DTensor
from shardwise.dtensor.factory import arange, empty, full, ones, rand, randint, randn, zeros
from shardwise.dtensor.halo import halo_exchange
from shardwise.dtensor.layout import Box, Layout
from shardwise.dtensor.local import from_local
from shardwise.dtensor.mapping import distribute_module, local_map
from shardwise.dtensor.parameter import ShardedBuffer, ShardedParameter
from shardwise.dtensor.placement import Partial, Placement, Replicate, Shard, Spec
from shardwise.dtensor.plot import plot_layout
from shardwise.dtensor.policy import implicit_replication
from shardwise.dtensor.proof.report import RuleReport
from shardwise.dtensor.proof.rule import check_rule
from shardwise.dtensor.redistribute.calibration import load_link_costs
from shardwise.dtensor.redistribute.cost import LinkCosts, set_link_costs
from shardwise.dtensor.redistribute.plan import Plan, plan
from shardwise.dtensor.replica import check_replicas
from shardwise.dtensor.together import raise_together

__all__ = [
    "Box", "DTensor", "Layout", "LinkCosts", "Partial", "Placement", "Plan", "Replicate", "RuleReport",
    "Shard", "ShardedBuffer", "ShardedParameter", "Spec", "arange", "check_replicas", "check_rule",
    "distribute_module", "distribute_tensor", "empty", "from_local", "full", "halo_exchange",
    "implicit_replication", "load_link_costs", "local_map", "ones", "plan", "plot_layout", "raise_together",
    "rand", "randint", "randn", "set_link_costs", "zeros",
]  # fmt: skip

"""Floor 4: placements, layouts, redistribution, sharding rules, DTensor."""

from shardwise.dtensor.layout import Box, Layout
from shardwise.dtensor.placement import Partial, Placement, Replicate, Shard, Spec

__all__ = ["Box", "Layout", "Partial", "Placement", "Replicate", "Shard", "Spec"]

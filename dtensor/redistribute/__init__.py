"""Changes of layout: plans, made by a pure function, and how ranks carry them out."""

from shardwise.dtensor.redistribute.calibration import (
    load_link_costs,
    measure_link_costs,
    save_link_costs,
)
from shardwise.dtensor.redistribute.cost import LinkCosts, link_costs, set_link_costs, using_link_costs
from shardwise.dtensor.redistribute.many import run_many
from shardwise.dtensor.redistribute.plan import Plan, plan
from shardwise.dtensor.redistribute.run import Redistribution, run, start
from shardwise.dtensor.redistribute.step import Step

__all__ = [
    "LinkCosts",
    "Plan",
    "Redistribution",
    "Step",
    "link_costs",
    "load_link_costs",
    "measure_link_costs",
    "plan",
    "run",
    "run_many",
    "save_link_costs",
    "set_link_costs",
    "start",
    "using_link_costs",
]

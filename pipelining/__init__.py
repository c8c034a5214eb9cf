"""Floor 5: pipeline programs as data. The executor is not built yet."""

from shardwise.pipelining.action import Action, parse_action
from shardwise.pipelining.link import LINK_MODELS, LinkModel, Wait, run_on_links
from shardwise.pipelining.lowering import lower
from shardwise.pipelining.program import Program
from shardwise.pipelining.simulation import Costs, Simulation, simulate

__all__ = [
    "LINK_MODELS",
    "Action",
    "Costs",
    "LinkModel",
    "Program",
    "Simulation",
    "Wait",
    "lower",
    "parse_action",
    "run_on_links",
    "simulate",
]

"""Floor 5: pipeline programs as data. Stages, and what runs them."""

from shardwise.pipelining.action import Action, parse_action
from shardwise.pipelining.checker.check import check, require_valid
from shardwise.pipelining.checker.finding import Finding
from shardwise.pipelining.cost import Costs
from shardwise.pipelining.link import LINK_MODELS, LinkModel, Wait, run_on_links
from shardwise.pipelining.lowering import lower
from shardwise.pipelining.microbatch import Chunk, Fold, Replicate
from shardwise.pipelining.partition import partition
from shardwise.pipelining.pipeline import Pipeline
from shardwise.pipelining.program import Program
from shardwise.pipelining.simulation import Simulation, simulate
from shardwise.pipelining.stage import PipelineStage
from shardwise.pipelining.tied import Tied

__all__ = [
    "LINK_MODELS",
    "Action",
    "Chunk",
    "Costs",
    "Finding",
    "Fold",
    "LinkModel",
    "Pipeline",
    "PipelineStage",
    "Program",
    "Replicate",
    "Simulation",
    "Tied",
    "Wait",
    "check",
    "lower",
    "parse_action",
    "partition",
    "require_valid",
    "run_on_links",
    "simulate",
]

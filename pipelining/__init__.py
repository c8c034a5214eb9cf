"""Floor 5: pipeline programs as data. Stages, and what runs them."""

from shardwise.pipelining.action import Action, parse_action
from shardwise.pipelining.automatic import Candidate, Choice, best_schedule
from shardwise.pipelining.balance import MemoryLimits
from shardwise.pipelining.checker.check import check, require_valid
from shardwise.pipelining.checker.finding import Finding
from shardwise.pipelining.comparison import Comparison
from shardwise.pipelining.cost import Costs
from shardwise.pipelining.drawing import draw, draw_png, draw_svg
from shardwise.pipelining.explanation import Explanation, Gap, Help, explain
from shardwise.pipelining.information import PipeInfo, SkipValue, StageInfo
from shardwise.pipelining.link import LINK_MODELS, LinkModel, Wait, run_on_links
from shardwise.pipelining.lowering import lower
from shardwise.pipelining.marker import SplitPoint, annotate_split_points, pipe_split
from shardwise.pipelining.memory import MemoryUse
from shardwise.pipelining.microbatch import Chunk, Fold, Replicate
from shardwise.pipelining.partition import partition
from shardwise.pipelining.pipe import Pipe, build_stage
from shardwise.pipelining.pipeline import Pipeline
from shardwise.pipelining.program import Program
from shardwise.pipelining.scheduled import Schedule
from shardwise.pipelining.schedules import (
    Schedule1F1B,
    ScheduleDualPipe,
    ScheduleDualPipeV,
    ScheduleForwardOnly,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleVHalf,
    ScheduleVMin,
    ScheduleZBH1,
    ScheduleZBH2,
    ScheduleZBVZeroBubble,
    get_schedule_class,
)
from shardwise.pipelining.simulation import Simulation, simulate
from shardwise.pipelining.skip import fetch, stash
from shardwise.pipelining.span import Span, Transfer
from shardwise.pipelining.splitting import pipeline
from shardwise.pipelining.stage import PipelineStage
from shardwise.pipelining.tied import Tied
from shardwise.pipelining.timeline import write_trace

__all__ = [
    "LINK_MODELS",
    "Action",
    "Candidate",
    "Choice",
    "Chunk",
    "Comparison",
    "Costs",
    "Explanation",
    "Finding",
    "Fold",
    "Gap",
    "Help",
    "LinkModel",
    "MemoryLimits",
    "MemoryUse",
    "Pipe",
    "PipeInfo",
    "Pipeline",
    "PipelineStage",
    "Program",
    "Replicate",
    "Schedule",
    "Schedule1F1B",
    "ScheduleDualPipe",
    "ScheduleDualPipeV",
    "ScheduleForwardOnly",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleVHalf",
    "ScheduleVMin",
    "ScheduleZBH1",
    "ScheduleZBH2",
    "ScheduleZBVZeroBubble",
    "Simulation",
    "SkipValue",
    "Span",
    "SplitPoint",
    "StageInfo",
    "Tied",
    "Transfer",
    "Wait",
    "annotate_split_points",
    "best_schedule",
    "build_stage",
    "check",
    "draw",
    "draw_png",
    "draw_svg",
    "explain",
    "fetch",
    "get_schedule_class",
    "lower",
    "parse_action",
    "partition",
    "pipe_split",
    "pipeline",
    "require_valid",
    "run_on_links",
    "simulate",
    "stash",
    "write_trace",
]

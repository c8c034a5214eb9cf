"""What ``shardwise doctor`` looks at: one small function per check, one file per family."""

from __future__ import annotations

from shardwise.launch.checks.finding import Family, Finding, Status
from shardwise.launch.checks.local import LOCAL, look

__all__ = ["LOCAL", "Family", "Finding", "Status", "look"]

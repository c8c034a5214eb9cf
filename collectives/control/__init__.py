"""The control plane: what ranks tell each other beside their collectives."""

from __future__ import annotations

from shardwise.collectives.control.bootstrap import Exchange, connect_plane
from shardwise.collectives.control.frame import JSON
from shardwise.collectives.control.liveness import Liveness, Peer, State
from shardwise.collectives.control.member import Member
from shardwise.collectives.control.message import Handler, Message
from shardwise.collectives.control.plane import ControlPlane

__all__ = [
    "JSON",
    "ControlPlane",
    "Exchange",
    "Handler",
    "Liveness",
    "Member",
    "Message",
    "Peer",
    "State",
    "connect_plane",
]

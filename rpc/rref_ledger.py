"""Which remote references there are on this worker, where they were made, and who holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shardwise.backend.source import Place, spell_place
from shardwise.rpc.current import current_agent
from shardwise.rpc.rref_table import RRefTable

__all__ = ["RRefRecord", "rref_ledger"]


@dataclass(frozen=True, slots=True)
class RRefRecord:
    """One value that is owned here, or one handle on a value elsewhere.

    Attributes
    ----------
    id : str
    role : {"owner", "user"}
    owner : str
        Name of the worker that has the value.
    type : str
        Of a value that is here; empty for others.
    state : str
        "pending", "ready" or "failed" for a value; "pending", "confirmed" or "failed" for a handle.
    holders : tuple of str
        Names of the workers that have handles, once for each; of a handle, those that it is being given to.
    line : str
        Where it was made, as ``path:line``; empty if that was on another worker.
    """

    id: str
    role: Literal["owner", "user"]
    owner: str
    type: str
    state: str
    holders: tuple[str, ...]
    line: str


def rref_ledger() -> list[RRefRecord]:
    """List the values of this worker that others refer to, then the handles of this worker.

    Returns
    -------
    list of RRefRecord

    Raises
    ------
    RpcError
        If there is no agent.
    """
    agent = current_agent()
    table: RRefTable = agent.parts[RRefTable]
    names = [worker.name for worker in agent.workers]
    records: list[RRefRecord] = []
    cells, handles = table.references()
    for cell in cells:
        failed = cell.value.done() and cell.value.exception() is not None
        state = "failed" if failed else "ready" if cell.value.done() else "pending"
        kind = type(cell.value.value()).__qualname__ if state == "ready" else ""
        holders = tuple(names[holder] for holder in list(cell.forks.values()))
        records.append(
            RRefRecord(str(cell.id), "owner", agent.me.name, kind, state, holders, _spelled(cell.line))
        )
    for handle in handles:
        state = "failed" if handle.error is not None else "confirmed" if handle.ready.done() else "pending"
        holders = tuple(names[to] for to in list(handle.children.values()))
        owner = names[handle.owner]
        records.append(RRefRecord(str(handle.id), "user", owner, "", state, holders, _spelled(handle.line)))
    return records


def _spelled(line: Place | None) -> str:
    return "" if line is None else spell_place(line)

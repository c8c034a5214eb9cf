"""What scripts for torch.distributed are told where a name is not here."""

from __future__ import annotations

import re

import pytest

from shardwise import collectives

NAMES = {
    "init_process_group": r"leave it out, or call init\(timeout=...\): shardwise run, mpirun or srun say "
    r"who is in the world. Mind that collectives return their result, and fill only what is given as out=: "
    r"all_reduce\(x, out=x\); see docs/how-to/from-pytorch.md",
    "destroy_process_group": r"leave it out, or call shutdown\(\) on all ranks",
    "send_object_list": r"send_object\(objects, dst\)",
    "get_node_local_rank": r"that is local_rank\(\)",
}


@pytest.mark.parametrize("name", NAMES)
def test_the_error_says_what_to_do(name: str) -> None:
    message = f"^module 'shardwise.collectives' has no attribute '{name}': {NAMES[name]}$"
    with pytest.raises(AttributeError, match=message):
        getattr(collectives, name)


def test_other_names_are_not_there() -> None:
    message = "module 'shardwise.collectives' has no attribute 'all_reduse'"
    with pytest.raises(AttributeError, match=f"^{re.escape(message)}$"):
        collectives.all_reduse  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(collectives, "init_process_group")


def test_what_is_there_is_not_told_of() -> None:
    told = vars(collectives.absence)["_INSTEAD"]
    assert not told.keys() & set(collectives.__all__)

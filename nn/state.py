"""Values by name: checked against the tensors that they are for, then copied in, all or none."""

from __future__ import annotations

from collections.abc import Mapping

from shardwise.backend.array import Array
from shardwise.backend.errors import ModuleError
from shardwise.tensor import Tensor, as_tensor, no_grad

__all__ = ["fill"]


def fill(
    own: Mapping[str, Tensor], given: Mapping[str, Tensor | Array], strict: bool, owner: str
) -> tuple[list[str], list[str]]:
    """Copy the values of `given` into the tensors of `own`, cast to their dtypes and devices.

    Parameters
    ----------
    own : mapping of str to Tensor
    given : mapping of str to Tensor or Array
    strict : bool
        Whether all names must be the same.
    owner : str
        Whose tensors they are, for the message.

    Returns
    -------
    missing, unexpected : list of str
        Names that only `own` has, and names that only `given` has.

    Raises
    ------
    ModuleError
        All that does not fit, in one message. Nothing is copied then.
    """
    missing = [name for name in own if name not in given]
    unexpected = [name for name in given if name not in own]
    problems = []
    if strict and missing:
        problems.append(f"missing: {', '.join(missing)}")
    if strict and unexpected:
        problems.append(f"unexpected: {', '.join(unexpected)}")
    for name, tensor in own.items():
        if name not in given:
            continue
        shape = getattr(given[name], "shape", None)
        if shape is None:
            problems.append(f"{name} is a {type(given[name]).__name__}, not a tensor or an array")
        elif tuple(shape) != tensor.shape:
            problems.append(f"{name} has shape {tensor.shape}, but {tuple(shape)} was given")
    if problems:
        hint = " (strict=False ignores names that one side has alone)" if strict else ""
        raise ModuleError(f"the state does not fit {owner}: {'; '.join(problems)}{hint}")
    with no_grad():
        for name, tensor in own.items():
            if name in given:
                tensor.copy_(as_tensor(given[name], dtype=tensor.dtype, device=tensor.device))
    return missing, unexpected

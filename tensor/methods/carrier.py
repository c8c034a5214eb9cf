"""What all methods stand on: something that carries an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from shardwise.backend.array import Array

if TYPE_CHECKING:
    from shardwise.tensor.tape import Node

__all__ = ["Carrier", "Operand"]


class Carrier:
    """An array, and its place on the tape.

    Attributes
    ----------
    data : Array
    requires_grad : bool
    node : Node or None
        The op that made it.
    index : int
        Which of that op's results it is.
    """

    data: Array

    # On the class, because most tensors need none of them: a result costs one attribute to make.
    requires_grad: bool = False
    node: Node | None = None
    index: int = 0


Operand: TypeAlias = Carrier | Array | np.generic | complex  # complex takes in int, float and bool

"""Collectives on the tape: the backward of each is its adjoint."""

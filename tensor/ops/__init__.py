"""Differentiable ops: one Function class each."""

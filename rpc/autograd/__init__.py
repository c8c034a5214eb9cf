"""Backward over computations that calls have spread over workers."""

from shardwise.rpc.autograd.backward import backward, context, get_gradients

__all__ = ["backward", "context", "get_gradients"]

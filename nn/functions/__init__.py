"""Layers as functions, by family; `shardwise.nn.functional` gathers them."""

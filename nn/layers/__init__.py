"""Layers, by family; `shardwise.nn` gathers them."""

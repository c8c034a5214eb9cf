"""Activations, and units that are gated by them."""

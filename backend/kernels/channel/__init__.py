"""Norms of channels."""

"""Proofs of sharding rules by brute force."""

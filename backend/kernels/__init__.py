"""Fused kernels, each beside its plain formula."""

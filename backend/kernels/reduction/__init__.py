"""Sums, products and extremes: over dims, running along one, and the top of rows."""

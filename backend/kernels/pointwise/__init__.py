"""Functions of single elements: choices, combinations, losses of numbers, casts."""

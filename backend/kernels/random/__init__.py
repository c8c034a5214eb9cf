"""Random bits, numbers, and dropout."""

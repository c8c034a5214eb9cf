"""Floor 5: data parallelism."""

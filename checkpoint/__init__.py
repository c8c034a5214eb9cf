"""Floor 6: sharded checkpoints. Not built yet."""

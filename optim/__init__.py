"""Floor 3: optimizers and learning-rate schedules."""

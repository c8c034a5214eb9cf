"""Floor 5: pipeline schedules, their checker and executor. Not built yet."""

"""The named schedules: pure functions that give the program of every rank."""

"""How arrays lie in memory: side by side, turned, and at which addresses."""

"""Floor 2: the world, its groups and their collectives."""

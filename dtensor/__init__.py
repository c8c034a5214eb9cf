"""Floor 4: placements, layouts, sharding rules, DTensor. Not built yet."""

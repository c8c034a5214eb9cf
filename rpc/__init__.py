"""Floor 7: remote procedure calls, RRef, distributed autograd. Not built yet."""

"""Floor 1: Tensor, Function, the tape and its backward engine."""

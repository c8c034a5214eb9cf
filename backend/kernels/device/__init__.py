"""What kernels for CuPy's arrays stand on: sources, launches, and the code that they share."""

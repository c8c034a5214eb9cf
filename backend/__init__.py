"""Floor 0: arrays, devices, fused kernels, random bits, errors."""

"""Device arrays in groups: over NCCL, by an MPI that knows devices, or by way of the host."""

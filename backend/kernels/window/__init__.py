"""Windows that slide over places: convolution, pooling, resampling."""

"""Floor 8: start ranks and watch them."""

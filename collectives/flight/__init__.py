"""What is known of operations that do not end, and the verdict on them."""

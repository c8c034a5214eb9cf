"""Elements and rows that are named by their place."""

"""Functions of one number for compiled loops, written so that these vectorise."""

"""Whether a program does each thing once, in an order that ends, on any links, within its memory."""

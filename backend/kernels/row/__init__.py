"""Functions of rows: softmax, norms of the last dim, cross-entropies."""

"""What reads the ledger: explanations, expectations, traces."""

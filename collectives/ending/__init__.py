"""How ranks end: by failure, by leaving, by a signal, by a fork."""

"""How messages of remote calls get from one process to another."""

"""How operators of destination chunks are executed."""

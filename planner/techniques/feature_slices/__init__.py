"""Workers own rows, and for sums over edges all rows of a slice of columns: tensor parallelism."""

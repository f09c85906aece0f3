"""Sums over edges by ranges of the rows that they make."""

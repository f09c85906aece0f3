"""Small sums over all workers in one message each."""

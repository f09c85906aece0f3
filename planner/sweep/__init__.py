"""What if: a job on many machines one does not have, priced from statistics of its graph."""

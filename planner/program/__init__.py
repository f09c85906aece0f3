"""The explicit program of an epoch: what every worker computes, sends, sums and steps, as operators."""

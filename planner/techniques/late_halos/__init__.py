"""Halo rows of the epoch before, so that they travel beside all that is computed (PipeGCN)."""

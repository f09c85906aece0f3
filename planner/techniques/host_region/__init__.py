"""Halo rows that the workers of a host hold together, in its main memory."""

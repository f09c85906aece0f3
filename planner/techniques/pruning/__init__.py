"""Halo rows that workers do without."""

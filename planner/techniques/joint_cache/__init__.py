"""Halo rows of earlier epochs, kept and used again."""

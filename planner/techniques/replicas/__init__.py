"""Halo rows that workers make themselves."""

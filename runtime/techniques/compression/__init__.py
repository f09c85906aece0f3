"""Rows that travel in fewer bytes, with error feedback."""

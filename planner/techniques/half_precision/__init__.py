"""Rows of vertices in numbers of two bytes."""

"""Operators that only one technique has."""

"""Exchanges beside computation."""

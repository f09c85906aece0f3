"""Splits a graph's vertices among workers."""

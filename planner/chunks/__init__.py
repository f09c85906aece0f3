"""Vertices in chunks, and aggregations in parts: what the planner cuts, and what runs without a plan."""

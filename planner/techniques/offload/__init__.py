"""Offload: rows that are only read and written a range at a time lie outside of a worker's memory."""

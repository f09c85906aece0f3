"""Slow or exact methods that benchmarks compare with."""

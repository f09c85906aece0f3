"""Slow or exact answers that only benchmarks and tests compare with."""

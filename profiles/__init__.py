"""What machines can do: device profiles, the catalog, and the profiler that measures them."""

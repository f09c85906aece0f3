"""The operators themselves: what the profiler times is what the runtime executes."""

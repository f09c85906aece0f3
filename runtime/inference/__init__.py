"""The forward half of a plan, played once by its workers."""

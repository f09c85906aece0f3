"""Doing it: torch.distributed workers that execute a plan."""

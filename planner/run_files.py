"""What a run's folder has, by the names of its files."""

PLAN_FILE = "plan.json"
MEASURED_FILE = "measured.json"
"""The trace of a run that has ended."""
MODEL_FILE = "model.pt"
"""A `state_dict`."""

"""What the parts of the planner agree on: pure data, which knows no technique."""

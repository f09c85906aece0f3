"""What a plan is chosen for, and the limits that it has to keep."""

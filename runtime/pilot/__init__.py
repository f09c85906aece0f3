"""Short trainings whose accuracy is followed epoch by epoch."""

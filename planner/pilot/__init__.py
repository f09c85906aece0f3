"""Short trainings of several families, and what their curves say of the way to an accuracy."""

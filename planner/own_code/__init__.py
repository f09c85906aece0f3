"""Code of the user's own that a job names by its file and a function in it. Only what runs a plan imports it."""

"""Input features of others, sent once and kept."""

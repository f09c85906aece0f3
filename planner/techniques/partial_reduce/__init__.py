"""Going on without workers that lag behind."""

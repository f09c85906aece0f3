"""Checkpoints: what training needs to go on, written beside it, and read again."""

"""Partial reduce (NeutronCloud, section 5): going on without workers that lag behind, and for how long."""

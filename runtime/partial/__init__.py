"""Training that goes on without workers that lag behind (NeutronCloud, section 5)."""

"""Training on workers that make some rows of their halos themselves and fetch the others (NeutronCloud, section 4)."""

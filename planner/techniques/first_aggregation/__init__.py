"""What the first layer makes of constant features, made once."""

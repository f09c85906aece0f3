"""Input features that are mostly zeros, stored and multiplied without them."""

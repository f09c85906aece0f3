"""Predictions and embeddings of the whole graph: the forward half of a plan alone."""

"""Mini-batch training: batches made by CPU and GPU at once, trained in the order they get ready."""

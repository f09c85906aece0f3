"""Training by mini-batches, made ahead of training or in its turn."""

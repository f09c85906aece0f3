"""Mini-batch training with batches made on CPU and GPU side by side (MorphGL): who makes which, and when."""

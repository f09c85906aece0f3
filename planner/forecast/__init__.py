"""What weather makes of a plan: figures of its epochs, and who sleeps when."""

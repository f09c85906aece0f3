"""Models as the forward program of one logical worker: no word about who holds which row."""

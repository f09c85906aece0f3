"""Workers own rows and fetch those of their neighbours' that they need."""

"""Ways of training, one file a technique, each answering the same five questions (`base.Strategy`)."""

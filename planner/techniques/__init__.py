"""Every known way of training, a folder each. Generic code imports none of them; the registry names them."""

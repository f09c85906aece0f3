"""Techniques put together: which may be, in which order, and what comes out."""

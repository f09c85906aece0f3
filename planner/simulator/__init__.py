"""Plays a schedule on a virtual clock."""

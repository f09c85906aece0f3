"""Plays a worker's part of a program on its device: operators by a table, one span each, no autograd graph."""

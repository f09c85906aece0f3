"""Runs that go on without workers that are lost, by a plan for who is left."""

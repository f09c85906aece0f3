"""Machines that are slow for a while: injected sleeps, a fitted model of it, and epochs played under either."""

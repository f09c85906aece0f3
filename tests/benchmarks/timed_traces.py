"""Measured traces of which nothing but the lengths of epochs matters, unless said."""

from gnnplan.planner.trace import Trace


def measured(epoch_s, **fields):
    """A trace of two untimed epochs and these, of two workers."""
    plain = {"spans": (), "peak_bytes": (1, 1), "losses": (0.0,) * (len(epoch_s) + 2)}
    return Trace(origin="measured", plan_fingerprint="0", num_workers=2, epoch_s=epoch_s, **plain | fields)

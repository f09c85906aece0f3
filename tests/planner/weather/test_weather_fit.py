"""A measured trace shows whose processor and whose link was slow, and is refused where it could not."""

import numpy as np
import pytest

from gnnplan.planner.trace import Span, Trace
from gnnplan.planner.weather.fit import fit_weather
from gnnplan.profiles.errors import UserError
from tests.planner.weather.test_two_state import series


def spells(num_epochs, *slow):
    is_slow = np.zeros(num_epochs, bool)
    for begin, end in slow:
        is_slow[begin:end] = True
    return is_slow


def trace_of(compute_s, transfer_s, late_port):
    """Epochs of a task of work and an exchange; `late_port[e]` ends the exchange last, by half of it."""
    spans = []
    for epoch in range(compute_s.shape[1]):
        begin_s = compute_s[:, epoch].max()
        for worker, seconds in enumerate(compute_s[:, epoch]):
            whose = {"worker": worker, "epoch": epoch}
            end_s = begin_s + transfer_s[epoch] * (1.0 if worker == late_port[epoch] else 0.5)
            spans.append(Span(task="l0/multiply/forward", category="compute", start_s=0.0, end_s=seconds, **whose))
            spans.append(Span(task="l0/x/forward", category="communicate", start_s=seconds, end_s=end_s, **whose))
    epoch_s = tuple((compute_s.max(0) + transfer_s).tolist())
    return Trace(origin="measured", plan_fingerprint="x", num_workers=len(compute_s), spans=tuple(spans),
                 epoch_s=epoch_s, peak_bytes=(0,) * len(compute_s))  # fmt: skip


def test_a_trace_shows_whose_processor_and_whose_link_was_slow():
    """Worker 1 computes at half the rate twice; worker 2's link is at a quarter for a while; 0 is always fair."""
    slow_compute, slow_link = spells(60, (10, 15), (30, 40)), spells(60, (20, 28))
    compute_s = np.stack([series(slow_compute & (worker == 1), 2.0, 0.02, worker) for worker in range(3)])
    transfer_s = series(slow_link, 4.0, 0.02, 7)
    late_port = np.where(slow_link, 2, np.arange(60) % 3)
    found = fit_weather(trace_of(compute_s, transfer_s, late_port)).workers
    assert found[0].compute is found[2].compute is None
    assert found[0].link is found[1].link is None
    lengths_s = compute_s.max(0) + transfer_s
    compute, link = found[1].compute, found[2].link
    assert compute.share == pytest.approx(0.5, rel=0.05)
    assert compute.slow_s == pytest.approx(lengths_s[slow_compute].sum() / 2)
    assert compute.fair_s == pytest.approx(lengths_s[~slow_compute].sum() / 2)
    assert link.share == pytest.approx(0.25, rel=0.05)
    assert link.slow_s == pytest.approx(lengths_s[slow_link].sum())


def test_a_trace_of_too_few_or_scattered_epochs_is_refused():
    """Spells cannot be told from epochs far apart."""
    few = trace_of(np.ones((2, 19)), np.ones(19), np.zeros(19))
    with pytest.raises(UserError, match=r"at least 20 epochs .* training\.traced_epochs"):
        fit_weather(few)
    many = trace_of(np.ones((2, 60)), np.ones(60), np.zeros(60))
    scattered = many.model_copy(update={"spans": tuple(span for span in many.spans if span.epoch % 2)})
    with pytest.raises(UserError, match="on end"):
        fit_weather(scattered)


def test_a_trace_whose_epochs_are_not_alike_is_refused():
    """Of partial reduce: a missing worker would be taken for one of another speed."""
    many = trace_of(np.ones((2, 60)), np.ones(60), np.zeros(60))
    fit_weather(many)
    with pytest.raises(UserError, match=r"leave out pin\.partial_reduce"):
        fit_weather(many.model_copy(update={"num_members": (2,) * 60}))


def test_one_worker_has_a_processor_and_no_link():
    """Nobody's rows are late where none travel."""
    slow = spells(40, (10, 20))
    compute_s = series(slow, 3.0, 0.01, 1)
    (found,) = fit_weather(trace_of(compute_s[None], np.zeros(40), np.zeros(40))).workers
    assert found.compute.share == pytest.approx(1 / 3, rel=0.05)
    assert found.compute.slow_s == pytest.approx(compute_s[slow].sum())
    assert found.link is None


def test_a_predicted_trace_is_refused():
    """Nothing fluctuates in it but what was put in."""
    many = trace_of(np.ones((2, 60)), np.ones(60), np.zeros(60))
    with pytest.raises(UserError, match="fitted from a measured trace"):
        fit_weather(many.model_copy(update={"origin": "predicted"}))

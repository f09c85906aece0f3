"""Bars of an epoch: what is waited for is told apart, and what is too narrow is drawn together."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.report.epoch_spans import bars_of
from gnnplan.planner.trace import Span


def span(task, worker, start_s, end_s, category="compute"):
    """A span of epoch 0."""
    return Span(task=task, worker=worker, epoch=0, category=category, start_s=start_s, end_s=end_s)


def test_who_comes_first_waits():
    """Until the last one has come; that one does not."""
    spans = [span("x", 0, 1.0, 4.0, "communicate"), span("x", 1, 3.0, 4.0, "communicate")]
    first, last = (bars_of(spans, worker, 0.0) for worker in (0, 1))
    assert [(bar.what, bar.start_s, bar.end_s) for bar in first] == [("communicate", 3.0, 4.0), ("waiting", 1.0, 3.0)]
    assert [(bar.what, bar.start_s, bar.end_s) for bar in last] == [("communicate", 3.0, 4.0)]


lengths = st.lists(st.tuples(st.floats(0, 0.1), st.floats(1e-6, 1.0)), min_size=1, max_size=30)


@given(lengths, st.floats(0, 0.3))
def test_what_is_drawn_together_covers_the_same(gaps, least_s):
    """No bar begins or ends elsewhere, none is lost, and no gap as wide as a bar is filled."""
    spans, now = [], 0.0
    for number, (gap_s, length_s) in enumerate(gaps):
        spans.append(span(f"t{number}", 0, now + gap_s, now + gap_s + length_s))
        now = spans[-1].end_s
    bars = bars_of(spans, 0, least_s)
    assert {bar.start_s for bar in bars} <= {each.start_s for each in spans}
    assert {bar.end_s for bar in bars} <= {each.end_s for each in spans}
    for each in spans:
        assert any(bar.start_s <= each.start_s and each.end_s <= bar.end_s for bar in bars)
    for one, other in pairwise(spans):
        if other.start_s - one.end_s >= max(least_s, 1e-9):
            assert not any(bar.start_s < one.end_s and other.start_s < bar.end_s for bar in bars)

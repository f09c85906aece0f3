"""The recorder: spans under their keys while active, nothing otherwise, and sent bytes always."""

import pytest
import torch

from gnnplan.runtime import recorder as module
from gnnplan.runtime.recorder import Recorder


class Clock:
    """A monotonic clock that ticks one second a look."""

    def __init__(self):
        self.now_s = 0.0

    def monotonic(self):
        self.now_s += 1.0
        return self.now_s


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(module, "time", Clock())
    return Recorder(torch.device("cpu"))


def test_active_spans_have_key_category_and_times(recorder):
    """Spans come in order with what they were given and the clock at both ends."""
    assert recorder.begin(True) == 1.0
    with recorder.span("l0/multiply/forward"):
        pass
    with recorder.span("reduce", "communicate"):
        pass
    assert recorder.end() == 6.0
    assert recorder.spans == [("l0/multiply/forward", "compute", 2.0, 3.0), ("reduce", "communicate", 4.0, 5.0)]


def test_untraced_epoch_records_nothing(recorder):
    """Without tracing the body runs, the clock is not looked at between begin and end."""
    recorder.begin(False)
    ran = []
    with recorder.span("l0/multiply/forward"):
        ran.append(1)
    assert recorder.end() == 2.0
    assert (ran, recorder.spans) == ([1], [])


def test_every_epoch_starts_afresh(recorder):
    """begin drops the last epoch's spans and sent bytes, leaving lists already handed out alone."""
    recorder.begin(True)
    with recorder.span("a"):
        recorder.sent_bytes += 12
    first = recorder.spans
    recorder.end()
    recorder.begin(True)
    assert (recorder.spans, recorder.sent_bytes) == ([], 0)
    assert [span[0] for span in first] == ["a"]


def test_error_in_a_span_comes_through(recorder):
    """A task that raises is not swallowed."""
    recorder.begin(True)
    with pytest.raises(ZeroDivisionError), recorder.span("a"):
        raise ZeroDivisionError


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_spans_lie_within_the_epoch():
    """Events resolve at the end to times between the epoch's start and end, in order."""
    recorder = Recorder(torch.device("cuda"))
    start_s = recorder.begin(True)
    x = torch.ones(512, 512, device="cuda")
    for key in ("a", "b"):
        with recorder.span(key):
            x = x @ x
    end_s = recorder.end()
    assert [span[0] for span in recorder.spans] == ["a", "b"]
    times = [time for span in recorder.spans for time in span[2:]]
    assert times == sorted(times)
    assert start_s <= times[0]
    assert times[-1] <= end_s + 1e-3

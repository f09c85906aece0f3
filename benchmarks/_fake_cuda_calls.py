"""Stand-ins for what the runtime asks of `torch.cuda`: streams, events, waiting. Each thread has its own device."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import torch

from benchmarks._fake_device import FakeDevice

_here = threading.local()


def current_device() -> FakeDevice:
    """This thread's."""
    return _here.device


@contextmanager
def on_device(device: FakeDevice) -> Iterator[FakeDevice]:
    """This thread computes on a device."""
    _here.device = device
    with device:
        yield device


class Event:
    """A mark on the current stream."""

    def __init__(self, enable_timing: bool = False) -> None:
        self._enable_timing = enable_timing

    def record(self) -> None:
        """Marks where the current stream is."""
        order = current_device().order
        self.clock, self._at_s = dict(order.clocks[order.current]), time.monotonic()

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds to another event."""
        assert self._enable_timing
        assert other._enable_timing
        return (other._at_s - self._at_s) * 1e3

    def synchronize(self) -> None:
        """Waits for it."""
        current_device().host_waits("event.synchronize")


class Stream:
    """A queue of operations.

    Args:
        number: of one that there is (None: a new one).
    """

    def __init__(self, device: torch.device, number: int | None = None) -> None:
        assert torch.device(device) == current_device().device
        self.number = current_device().order.add() if number is None else number

    def wait_stream(self, other: Stream) -> None:
        """What comes on this one comes after what is on the other."""
        order = current_device().order
        order.wait(self.number, order.clocks[other.number])


def current_stream(device: torch.device) -> Stream:
    """Of this thread."""
    return Stream(device, current_device().order.current)


@contextmanager
def stream(chosen: Stream) -> Iterator[None]:
    """Operations go to a stream."""
    order = current_device().order
    before, order.current = order.current, chosen.number
    try:
        yield
    finally:
        order.current = before


def synchronize(device: torch.device | None = None) -> None:
    """The host waits for the device."""
    current_device().host_waits("torch.cuda.synchronize")
    current_device().order.synchronise()


@contextmanager
def pretended_cuda() -> Iterator[None]:
    """While it lasts, torch believes that it has a driver, and modules are moved parameter by parameter."""
    calls = {
        "Event": Event,
        "Stream": Stream,
        "current_stream": current_stream,
        "stream": stream,
        "synchronize": synchronize,
        "_lazy_init": lambda: None,
    }
    overwrites = torch.__future__.get_overwrite_module_params_on_conversion()
    with ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(torch.cuda, **calls))
        stack.enter_context(mock.patch("gnnplan.runtime.sampling.page_lock.CudaRegistrar"))
        stack.callback(torch.__future__.set_overwrite_module_params_on_conversion, overwrites)
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        yield

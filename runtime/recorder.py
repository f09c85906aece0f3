"""Measures the tasks of an epoch under the keys the planner predicted them by."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from gnnplan.planner.schedule import Category


@dataclass
class Recorder:
    """Collects (key, category, start_s, end_s) while `active`; on CUDA by events, without a sync a task.

    `sent_bytes` counts what this worker hands to the exchange, traced or not.
    """

    device: torch.device
    active: bool = False
    sent_bytes: int = 0
    spans: list[tuple[str, Category, float, float]] = field(default_factory=list)
    _events: list[tuple[str, Category, torch.cuda.Event, torch.cuda.Event]] = field(default_factory=list)
    _origin_s: float = 0.0
    _origin: torch.cuda.Event | None = None

    def begin(self, active: bool) -> float:
        """Starts an epoch and returns its start on this worker's clock, seconds."""
        self.active, self.sent_bytes = active, 0
        self.spans, self._events = [], []
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            self._origin = torch.cuda.Event(enable_timing=True)
            self._origin.record()
        self._origin_s = time.monotonic()
        return self._origin_s

    def end(self) -> float:
        """Ends the epoch: waits for the device, resolves events, returns the end, seconds."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            for key, category, start, stop in self._events:
                assert self._origin is not None
                begin, end = self._origin.elapsed_time(start) / 1e3, self._origin.elapsed_time(stop) / 1e3
                self.spans.append((key, category, self._origin_s + begin, self._origin_s + end))
        return time.monotonic()

    def begun_s(self, key: str) -> float:
        """When a task of this epoch began, seconds on this worker's clock; waits until it has, on CUDA."""
        if self.device.type != "cuda":
            return next(start_s for name, _, start_s, _ in self.spans if name == key)
        start = next(start for name, _, start, _ in self._events if name == key)
        assert self._origin is not None
        start.synchronize()
        return self._origin_s + self._origin.elapsed_time(start) / 1e3

    def add(self, key: str, category: Category, start_s: float, end_s: float) -> None:
        """A task that was timed elsewhere, seconds on this worker's clock."""
        self.spans.append((key, category, start_s, end_s))

    @contextmanager
    def span(self, key: str, category: Category = "compute") -> Iterator[None]:
        """Times the body as task `key`."""
        if not self.active:
            yield
        elif self.device.type == "cuda":
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            yield
            stop.record()
            self._events.append((key, category, start, stop))
        else:
            start_s = time.monotonic()
            yield
            self.spans.append((key, category, start_s, time.monotonic()))

"""Streams and events of a device that is only pretended, and who waits for whom on them.

Every stream counts its operations, and knows up to which operation of every other it has waited. An operation that
reads a tensor must come after what wrote it; one that writes a tensor after all that read or wrote it; and memory that
is freed must have been used up by then as far as the stream that it is of knows, for that stream hands it out again.
The method is that of vector clocks, as in `torch.cuda._sanitizer`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Clock = dict[int, int]
"""Stream -> number of an operation of it."""


@dataclass
class _Uses:
    stream: int
    written: tuple[int, int] | None = None
    read: Clock = field(default_factory=dict)


class Order:
    """The streams of one device.

    Args:
        report: told in words what nobody waited for.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._uses: dict[int, _Uses] = {}
        self.clocks: list[Clock] = []
        self.current = self.add()
        self.of_collectives = self.add()

    def add(self) -> int:
        """A new stream's number."""
        self.clocks.append({})
        return len(self.clocks) - 1

    def wait(self, stream: int, clock: Clock) -> None:
        """Whatever a stream does next comes after what a clock has."""
        own = self.clocks[stream]
        for other, number in clock.items():
            own[other] = max(own.get(other, 0), number)

    def operate(self, what: str, reads: list[int], writes: list[int]) -> None:
        """An operation of the current stream on storages."""
        stream, clock = self.current, self.clocks[self.current]
        clock[stream] = clock.get(stream, 0) + 1
        for key in (*reads, *writes):
            self._after_writing(what, self._uses.setdefault(key, _Uses(stream)))
        for key in writes:
            uses = self._uses[key]
            if not all(self._knows(stream, other, number) for other, number in uses.read.items()):
                self._report(f"{what} writes what another stream may still read")
            uses.written, uses.read = (stream, clock[stream]), {}
        for key in reads:
            self._uses[key].read[stream] = clock[stream]

    def _after_writing(self, what: str, uses: _Uses) -> None:
        if uses.written and not self._knows(self.current, *uses.written):
            self._report(f"{what} uses what another stream may still write")

    def freed(self, key: int) -> None:
        """A storage is handed out again by the stream that it is of."""
        uses = self._uses.pop(key, None)
        if uses:
            last = [*uses.read.items(), *([uses.written] if uses.written else [])]
            if not all(self._knows(uses.stream, other, number) for other, number in last):
                self._report("memory is freed that another stream may still use")

    def _knows(self, stream: int, other: int, number: int) -> bool:
        return self.clocks[stream].get(other, 0) >= number

    def synchronise(self) -> None:
        """The host has waited for all of them, so whatever comes next does."""
        numbers = {stream: clock.get(stream, 0) for stream, clock in enumerate(self.clocks)}
        for clock in self.clocks:
            clock.update(numbers)

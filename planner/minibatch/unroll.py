"""Every stage of every batch of an epoch, in the order in which the policy lets them begin."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gnnplan.planner.minibatch.policy import DualBufferPolicy
from gnnplan.planner.minibatch.simulate import Player

Route = Literal["ahead", "in_turn"]
"""How a batch comes to the device: made ahead of training by loader threads, or by the device itself, in its turn."""


@dataclass(frozen=True)
class Begun:
    """A stage of a batch.

    Args:
        stage: as the policy calls it.
        thread: of those that make batches ahead; 0 of any other stage.
        after: numbers of stages whose end let it begin, or that bring its batch.
    """

    stage: str
    route: Route
    thread: int
    after: tuple[int, ...]


def unrolled(seconds: Mapping[str, float], policy: DualBufferPolicy, num_loaders: int) -> list[Begun]:
    """The stages of an epoch, as they begin where each takes so long.

    Args:
        seconds: of a batch in every stage; of `cpu_batch` one thread's.
    """
    recorder = _Recorder(seconds, policy, num_loaders)
    recorder.play()
    return recorder.begun


class _Recorder(Player):
    """Plays an epoch, and notes what begins after what."""

    def __init__(self, seconds: Mapping[str, float], policy: DualBufferPolicy, num_cpu_threads: int) -> None:
        super().__init__(seconds, policy, num_cpu_threads)
        self.begun: list[Begun] = []
        self._number: dict[tuple[str, int], int] = {}  # of the stages under way
        self._ended: list[int] = []  # at the present moment
        self._now_ns = 0
        self._in_host: deque[int] = deque()
        self._on_device: deque[int] = deque()

    def run(self, stage: str, thread: int, now_ns: int) -> None:
        super().run(stage, thread, now_ns)
        brings = {"transfer": self._in_host, "train": self._on_device}.get(stage)
        batch = [] if brings is None else [brings.popleft()]
        route: Route = "in_turn" if stage == "gpu_batch" else "ahead"
        if stage == "train":
            route = self.begun[batch[0]].route
        caused = self._ended if now_ns == self._now_ns else ()
        self._number[stage, thread] = len(self.begun)
        self.begun.append(Begun(stage, route, thread, tuple(sorted({*caused, *batch}))))

    def end(self, stage: str, thread: int, now_ns: int) -> None:
        super().end(stage, thread, now_ns)
        number = self._number.pop((stage, thread))
        self._ended = [*(self._ended if now_ns == self._now_ns else ()), number]
        self._now_ns = now_ns
        if stage == "cpu_batch":
            self._in_host.append(number)
        elif stage != "train":
            self._on_device.append(number)

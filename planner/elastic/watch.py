"""How far a run has come, by its events: what a loss has cost is told when training goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gnnplan.profiles.launch import Event


@dataclass(frozen=True)
class Loss:
    """Workers that a run has lost.

    Args:
        words: who, how, and what the new plan is.
        at_s: on the clock, when the epoch from which training goes on had begun for the first time.
        lost_epochs: that are trained again, as far as events tell; there may be a few more.
    """

    words: str
    at_s: float
    lost_epochs: int


@dataclass
class Watch:
    """Hands events on, and keeps what of them a loss is told by.

    Args:
        on_event: told of all events, and of `{"event": "restart", "words", "lost_epochs", "lost_s"}` when training goes
            on after a loss.
        num_epochs: that are trained, as far as events tell; they come a few times a second.
    """

    on_event: Callable[[Event], None] | None
    clock: Callable[[], float] = time.monotonic
    num_epochs: int = 0
    has_checkpoint: bool = False
    _reached_s: dict[int, float] = field(default_factory=dict)
    _loss: Loss | None = None

    def __post_init__(self) -> None:
        self._begun_s = self.clock()

    def __call__(self, event: Event) -> None:
        """An event of the run."""
        if event["event"] == "checkpoint" and not event["fault"]:
            self.has_checkpoint = True
        if event["event"] == "epoch":
            if self._loss:
                self._tell(self._loss, event)
            self.num_epochs = event["epoch"] + 1
            self._reached_s[self.num_epochs] = self.clock()
        if self.on_event:
            self.on_event(event)

    def note(self, words: str) -> None:
        """Something to be read."""
        if self.on_event:
            self.on_event({"event": "note", "words": words})

    def lose(self, words: str, epoch: int) -> None:
        """Workers are lost, and training goes on with an epoch: the line comes when it does."""
        last_s = max(self._reached_s.values(), default=self._begun_s)  # epochs behind the last event are not told
        at_s = min((s for reached, s in self._reached_s.items() if reached >= epoch), default=last_s)
        at_s = at_s if epoch else self._begun_s
        self._loss = Loss(words, at_s, max(self.num_epochs - epoch, 0))
        self._reached_s = {reached: s for reached, s in self._reached_s.items() if reached <= epoch}

    def _tell(self, loss: Loss, event: Event) -> None:
        lost_s = max(self.clock() - loss.at_s, 0.0)
        words = f"{loss.words}; at least {loss.lost_epochs} epochs are trained again, {lost_s:.1f} s were lost"
        if self.on_event:
            facts = {"lost_epochs": loss.lost_epochs, "lost_s": lost_s}
            self.on_event({"event": "restart", "words": words, **facts})
        self._loss = None

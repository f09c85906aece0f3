"""The `Pilots` contract: what short trainings of a job's families came to, epoch by epoch."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from gnnplan.planner.job import Job
from gnnplan.planner.pilot.variants import piloted_of
from gnnplan.profiles.contract import Contract, Document
from gnnplan.profiles.limits import MAX_EPOCHS, MAX_VERTICES

Family = Literal["full_batch", "decoupled", "mini_batch"]
Accuracy = Annotated[float, Field(ge=0, le=1)]
WORDS: dict[Family, str] = {
    "full_batch": "full batch",
    "decoupled": "full batch of the decoupled model",
    "mini_batch": "mini-batch",
}


def label(family: Family, variant: str = "") -> str:
    """A family and its variant, as sentences have them."""
    return f"{WORDS[family]}, {variant}" if variant else WORDS[family]


class Curve(Contract):
    """The accuracy of one family by epochs. It counts steps, so it is the same on every machine.

    Args:
        trained: fingerprint of what was trained (`trained_fingerprint`).
        variant: of full batch by a decision that has to be piloted, or of mini-batches, in a few words (empty: plain).
        steps_per_epoch: optimizer steps.
        accuracies: on the validation vertices (of multi-label jobs micro-F1), after every epoch. Without such
            vertices on those that are trained.
    """

    trained: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    family: Family
    variant: str = Field(default="", max_length=200)
    steps_per_epoch: Annotated[int, Field(ge=1, le=MAX_VERTICES)]
    accuracies: tuple[Accuracy, ...] = Field(min_length=1, max_length=MAX_EPOCHS)

    def epochs_to(self, accuracy: float) -> int | None:
        """Epochs after which it is reached for the first time (None: the curve ends before)."""
        return next((epoch for epoch, value in enumerate(self.accuracies, 1) if value >= accuracy), None)

    @property
    def words(self) -> str:
        """The family, and its variant."""
        return label(self.family, self.variant)

    @property
    def best(self) -> float:
        """The highest accuracy that was seen."""
        return max(self.accuracies)


_MOST_CURVES = 100


class Pilots(Document):
    """Curves of a job's families."""

    KIND: ClassVar[str] = "pilots"

    curves: tuple[Curve, ...] = Field(min_length=1, max_length=_MOST_CURVES)

    @model_validator(mode="after")
    def _each_training_once(self) -> Self:
        if len({curve.trained for curve in self.curves}) < len(self.curves):
            raise ValueError("one training has two curves")
        return self

    def of(self, job: Job, graph: str) -> Curve | None:
        """The curve of a job on a graph of this fingerprint (None: it was not trained)."""
        trained = trained_fingerprint(job, graph)
        return next((curve for curve in self.curves if curve.trained == trained), None)

    def with_curve(self, curve: Curve) -> Pilots:
        """With a curve, in place of an earlier one of the same training; of too many the oldest goes."""
        others = [each for each in self.curves if each.trained != curve.trained]
        return self.model_copy(update={"curves": (*others[1 - _MOST_CURVES :], curve)})


def family_of(job: Job) -> Family:
    """By whether it has mini-batches, or the decoupled form of its model."""
    if job.mini_batch:
        return "mini_batch"
    return "decoupled" if job.is_decoupled else "full_batch"


def trained_fingerprint(job: Job, graph: str) -> str:
    """16 hex digits of what decides a job's curve: its graph, model, training and mini-batches.

    How many epochs are asked for changes nothing but the schedule of the learning rate; what is pinned of an exact
    plan, on which machine, changes nothing at all.

    Args:
        graph: the graph's fingerprint.
    """
    training = job.training.model_dump(mode="json", exclude={"weather", "traced_epochs"})
    if job.training.schedule == "constant":
        training.pop("epochs")
    batches = job.mini_batch.model_dump(mode="json", exclude={"device_bytes"}) if job.mini_batch else None
    facts = [graph, job.model.model_dump(mode="json"), training, batches]
    if piloted := piloted_of(job):
        facts.append({**piloted, "op_order": job.pin.op_order})  # what is not exact is not the same in every order
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

"""Checkpoints of a run, as its folder has them: how often they are written, and which of them are whole.

`FOLDER/checkpoints/epoch_20/` has one part a worker, and `manifest.json`, which comes last. Without it a checkpoint
does not count.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from gnnplan.planner.plan import Plan
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.contract import Contract, Document
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.limits import MAX_EPOCHS, MAX_KEPT, MAX_SECONDS, MAX_WORKERS, Bytes, Epochs

FOLDER = "checkpoints"
MANIFEST_FILE = "manifest.json"
DEFAULT_NUM_KEPT = 2


@dataclass(frozen=True)
class Frequency:
    """How often a run writes a checkpoint: every so many seconds, or epochs; neither: never."""

    seconds: float = 0.0
    epochs: int = 0

    @classmethod
    def parse(cls, text: str) -> Frequency:
        """Of `10s`, `20` (epochs) or `never`; `ValueError` for anything else."""
        if text == "never":
            return cls()
        if text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_EPOCHS)) and 1 <= int(text) <= MAX_EPOCHS:
            return cls(epochs=int(text))
        if re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,3})?s", text) and 0 < float(text[:-1]) <= MAX_SECONDS:
            return cls(seconds=float(text[:-1]))
        raise ValueError(f"must be seconds as in 10s, epochs as in 20, or never; got {text}")

    def __str__(self) -> str:
        return f"{self.seconds:g}s" if self.seconds else str(self.epochs) if self.epochs else "never"


DEFAULT_FREQUENCY = Frequency(seconds=60.0)
"""A run that breaks loses a minute at most, and one of less than a minute writes none."""


@dataclass(frozen=True)
class CheckpointOptions:
    """How often a run writes checkpoints, how many stay, and whether it goes on from the one that is furthest."""

    frequency: Frequency = DEFAULT_FREQUENCY
    num_kept: int = DEFAULT_NUM_KEPT
    resume: bool = False

    @classmethod
    def of(cls, every: str | int | None, num_kept: int = DEFAULT_NUM_KEPT, resume: bool = False) -> CheckpointOptions:
        """From what a user gives; `UserError` where that is none.

        Args:
            every: `10s`, epochs, or `never` (None: the default).
        """
        try:
            frequency = DEFAULT_FREQUENCY if every is None else Frequency.parse(str(every))
        except ValueError as error:
            raise UserError(f"checkpoints {error}") from None
        if not 1 <= num_kept <= MAX_KEPT:
            raise UserError(f"checkpoints that stay must be 1 to {MAX_KEPT}, got {num_kept}")
        return cls(frequency, num_kept, resume)

    def arguments(self) -> list[str]:
        """Of a worker's command line."""
        return [f"--checkpoint-every={self.frequency}", f"--keep={self.num_kept}", *["--resume"][: self.resume]]


class Part(Contract):
    """The file of one worker: how long it is, and its SHA-256."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    num_bytes: Bytes


class Manifest(Document):
    """What a checkpoint is of.

    Args:
        plan: fingerprint.
        training: fingerprint of what is trained, whatever the plan (`training_of`).
        epoch: the next one to train.
        parts: by worker. Where workers go on without each other the first one's is enough.
        fresh_until: the epochs before it send all rows again, for none were kept when this plan went on from another.
    """

    KIND: ClassVar[str] = "checkpoint"

    plan: str
    training: str
    epoch: Epochs
    parts: tuple[Part, ...] = Field(min_length=1, max_length=MAX_WORKERS)
    fresh_until: int = Field(default=0, ge=0, le=2 * MAX_EPOCHS)


@dataclass(frozen=True)
class Checkpoint:
    """A whole one, and the folder that it lies in."""

    folder: Path
    manifest: Manifest

    @property
    def epoch(self) -> int:
        """The next one to train."""
        return self.manifest.epoch


def training_of(plan: Plan) -> str:
    """16 hex digits, equal for plans between which parameters and optimizer may be taken over.

    Graph, model, optimizer, seed and batches are what they stand for. How many epochs there are, how fast they learn,
    and on which machines they are trained may differ.
    """
    job = plan.job
    facts = {
        "graph": plan.graph.fingerprint,
        "model": job.model.model_dump(mode="json"),
        "training": [job.training.optimizer, job.training.seed, *_unusual(job.training)],
        "mini_batch": job.mini_batch and job.mini_batch.model_dump(mode="json", exclude={"device_bytes"}),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _unusual(training: TrainingSpec) -> list[Any]:
    """What else a training stands for, where it is not what is usual: what it learns, and what its optimizer keeps."""
    arguments = [training.optimizer_arguments] if training.optimizer_arguments else []
    return [*arguments, *([training.loss, training.loss_sha256] if training.loss != "auto" else [])]


def checkpoints_in(folder: Path) -> tuple[list[Checkpoint], list[str]]:
    """The whole checkpoints of a run's folder, the furthest first, and in words why others are none."""
    whole, faults = [], []
    for path in _entries(folder):
        if path.is_symlink() or not (path / MANIFEST_FILE).is_file():
            continue  # of a run that ended while it was being written
        try:
            whole.append(Checkpoint(path, Manifest.load(path / MANIFEST_FILE)))
        except UserError as error:
            faults.append(str(error))
    return sorted(whole, key=lambda found: found.epoch, reverse=True), faults


def clear_unfinished(folder: Path, *, but: int = -1) -> None:
    """Removes what lies in a run's folder of checkpoints that are not whole.

    Args:
        but: the epoch of one that is being written.
    """
    for path in _entries(folder):
        if not (path / MANIFEST_FILE).is_file() and path.name != name_of(but):
            shutil.rmtree(path, ignore_errors=True)


def keep_only(folder: Path, epochs: list[int]) -> None:
    """Removes the other checkpoints of a run's folder. Each loses its manifest first, and is none from then on."""
    names = set(map(name_of, epochs))
    for path in _entries(folder):
        if path.name not in names:
            (path / MANIFEST_FILE).unlink(missing_ok=True)
            shutil.rmtree(path, ignore_errors=True)


def name_of(epoch: int) -> str:
    """Of the folder of a checkpoint."""
    return f"epoch_{epoch}"


def part_file(rank: int) -> str:
    """Of a worker."""
    return f"worker_{rank}.npz"


def _entries(folder: Path) -> list[Path]:
    inside = folder / FOLDER
    if inside.is_symlink():
        raise UserError(f"{inside}: is a link, and a run reads and writes in its own folder alone; remove it")
    return [path for path in inside.glob("epoch_*") if re.fullmatch(r"epoch_\d{1,7}", path.name)]

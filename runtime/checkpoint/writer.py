"""Writes checkpoints on a thread beside training, one at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Flag
from threading import Thread

import numpy as np
import torch.distributed as dist

from gnnplan.planner.checkpoints import (
    FOLDER,
    MANIFEST_FILE,
    Manifest,
    Part,
    clear_unfinished,
    keep_only,
    name_of,
    part_file,
)
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.folder import make_inside
from gnnplan.runtime.checkpoint.parts import sync, write_part
from gnnplan.runtime.checkpoint.state import METRIC

_POLL_S = 0.05
_LEAVE_S = 1.0  # for a thread that is told to end; one that asks the store of a stopped agent hears nothing
_FAULT = "fault"


@dataclass
class Writer:
    """One worker's thread.

    A checkpoint is whole once every worker has written its part: then each host's first worker writes the manifest, and
    removes older ones. Workers tell each other through the store that torchrun keeps for a run.

    Args:
        folder: of the run.
        plan, training: fingerprints for the manifest.
        num_parts: workers that write one.
        store: None where there is one part alone.
        is_first: of its host.
        num_kept: checkpoints that stay.
        kept: epochs of those that are there when the run begins, ascending.
        timeout_s: longest wait for the others' parts.
        on_written: told what came of each, on the thread, as `{"event": "checkpoint", ...}`.
        fresh_until: as a manifest has it.
    """

    folder: Path
    plan: str
    training: str
    rank: int
    num_parts: int
    store: dist.Store | None
    is_first: bool
    num_kept: int
    kept: list[int]
    timeout_s: float
    on_written: Callable[[dict], None]
    fresh_until: int = 0
    _thread: Thread | None = None
    _ending: Flag = field(default_factory=Flag)

    @property
    def is_busy(self) -> bool:
        """Whether one is being written."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, epoch: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes a checkpoint before epoch `epoch`; nobody may change the arrays until it is written."""
        assert not self.is_busy
        self._thread = Thread(target=self._write, args=(epoch, arrays), name="checkpoint", daemon=True)
        self._thread.start()

    def finish(self, timeout_s: float) -> None:
        """Waits until what is being written is there, or so long."""
        if self._thread is not None:
            self._thread.join(max(timeout_s, 0.0))

    def end(self, timeout_s: float) -> None:
        """The same; from then on no other worker's part is waited for."""
        self.finish(timeout_s)
        self._ending.set()
        self.finish(_LEAVE_S)

    def _write(self, epoch: int, arrays: Mapping[str, np.ndarray]) -> None:
        begun_s = time.monotonic()
        told, fault = self._part(epoch, arrays)
        try:
            if self.is_first:  # also without its own part: others' parts would stay, and fill the disk
                self._commit(epoch, told)
        except (UserError, OSError) as error:
            fault = fault or str(error)
        if self.rank == 0:
            said = {"event": "checkpoint", "epoch": epoch, "seconds": time.monotonic() - begun_s, "fault": fault}
            self.on_written(said)

    def _part(self, epoch: int, arrays: Mapping[str, np.ndarray]) -> tuple[str, str]:
        """Writes this worker's; what it tells the others, and why there is none (empty: there is one)."""
        told, fault = json.dumps({_FAULT: "its worker has ended"}), ""
        try:
            _check_finite(arrays)
            inside = make_inside(make_inside(self.folder, FOLDER), name_of(epoch))
            (inside / MANIFEST_FILE).unlink(missing_ok=True)  # of an earlier run, whose parts are replaced here
            told = write_part(inside / part_file(self.rank), arrays).model_dump_json()
        except (UserError, OSError) as error:
            told, fault = json.dumps({_FAULT: f"worker {self.rank}: {error}"}), str(error)
        finally:
            if self.store is not None:
                self.store.set(_key(epoch, self.rank), told)
        return told, fault

    def _commit(self, epoch: int, told: str) -> None:
        parts = tuple(Part.model_validate_json(each) for each in self._parts(epoch, told))
        manifest = Manifest(
            plan=self.plan, training=self.training, epoch=epoch, parts=parts, fresh_until=self.fresh_until
        )
        at = self.folder / FOLDER / name_of(epoch)
        manifest.save(at / MANIFEST_FILE)
        sync(at / MANIFEST_FILE)  # before older ones go
        for folder in (at, at.parent, self.folder):
            with suppress(OSError):  # some file systems know no such thing of folders
                sync(folder)
        self.kept = [*(other for other in self.kept if other != epoch), epoch][-self.num_kept :]
        keep_only(self.folder, self.kept)

    def _parts(self, epoch: int, told: str) -> list[str]:
        """What all workers have told, by rank; `UserError` where one has none, or is silent."""
        found = [told] if self.store is None else self._told_by_all(self.store, epoch)
        if faults := [fault for each in found if (fault := json.loads(each).get(_FAULT))]:
            clear_unfinished(self.folder)
            raise UserError(faults[0])
        return found

    def _told_by_all(self, store: dist.Store, epoch: int) -> list[str]:
        keys, until_s = [_key(epoch, rank) for rank in range(self.num_parts)], time.monotonic() + self.timeout_s
        while not store.check(keys):
            if time.monotonic() > until_s or self._ending.is_set():
                clear_unfinished(self.folder)
                raise UserError("another worker's part did not come")
            time.sleep(_POLL_S)
        return [bytes(store.get(key)).decode() for key in keys]


def run_store() -> dist.Store:
    """Of this run's checkpoints, among what torchrun's store holds."""
    from torch.distributed.distributed_c10d import _get_default_store

    return dist.PrefixStore("checkpoints", _get_default_store())


def _key(epoch: int, rank: int) -> str:
    return f"{epoch}/{rank}"


def _check_finite(arrays: Mapping[str, np.ndarray]) -> None:
    """`UserError` where something is NaN or infinite: the checkpoint before is the last good one."""
    for name, array in arrays.items():
        if not name.startswith(METRIC) and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise UserError(f"{name} holds values that are NaN or infinite")

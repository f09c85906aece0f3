"""What training begins with: of PyG's model for the job's kind, or of the user's module."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gnnplan.planner.job import Job
from gnnplan.planner.models.cloned import cloned
from gnnplan.planner.models.module_source import module_of

if TYPE_CHECKING:
    from torch import Tensor

_CACHES = "torchinductor_*"


def first_weights(job: Job, num_features: int, num_classes: int) -> dict[str, Tensor]:
    """A `state_dict` of its own on the CPU, equal for equal seeds.

    Raises `UserError` as `module_of` does.
    """
    if job.model.kind == "module":
        net = module_of(job.model, num_features, num_classes, job.training.seed)
    else:
        with _leaving_no_files():
            from gnnplan.planner.models.pyg_models import build_pyg_model  # it imports PyG, which takes seconds

            net = build_pyg_model(job.model, num_features, num_classes, job.training.seed)
    return cloned(net.state_dict(), "cpu")


@contextmanager
def _leaving_no_files() -> Iterator[None]:
    """Takes away what PyG leaves among the temporary files: code that it made, and the folder of torch's compiler."""
    folder = Path(tempfile.gettempdir())
    modules, caches = set(sys.modules), {*folder.glob(_CACHES)}
    try:
        yield
    finally:
        for name in set(sys.modules) - modules:
            path = Path(getattr(sys.modules[name], "__file__", None) or folder)
            if name.startswith("torch_geometric.") and path.parent == folder:
                path.unlink(missing_ok=True)
        for cache in {*folder.glob(_CACHES)} - caches:
            with suppress(OSError):  # somebody uses it
                cache.rmdir()

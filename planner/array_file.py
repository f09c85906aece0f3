"""Records of arrays, CSR matrices and whole numbers in one `.npz`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.loaders.read import reading
from gnnplan.profiles.contract import replacing


class ArrayFile:
    """A dataclass whose fields are arrays, scipy CSR matrices or ints; `WHAT` names it in errors."""

    WHAT = "an array file"

    def save(self, path: Path) -> None:
        """Writes plain arrays under a temporary name, then renames."""
        arrays: dict[str, np.ndarray] = {}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if sp.issparse(value):
                for part in ("data", "indices", "indptr"):
                    arrays[f"{field.name}.{part}"] = getattr(value, part)
                arrays[f"{field.name}.shape"] = np.array(value.shape)
            else:
                arrays[field.name] = np.asarray(value)
        with replacing(path) as temporary, temporary.open("wb") as sink:  # by its name it would be given a suffix
            np.savez(sink, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what `save` wrote; `UserError` where the file is missing or damaged."""
        values: dict[str, Any] = {}
        with reading(path, cls.WHAT), np.load(path, allow_pickle=False) as stored:
            for field in fields(cls):  # type: ignore[arg-type]
                if field.name in stored:
                    array = stored[field.name]
                    values[field.name] = int(array) if array.ndim == 0 else array
                else:
                    parts = tuple(stored[f"{field.name}.{part}"] for part in ("data", "indices", "indptr"))
                    values[field.name] = sp.csr_matrix(parts, shape=tuple(stored[f"{field.name}.shape"]))
        return cls(**values)

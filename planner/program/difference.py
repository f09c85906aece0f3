"""Where two documents differ, in words a person can act on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

_BY_WORKER = frozenset({"sizes", "num_own", "num_entries", "num_edges", "columns", "counts", "workers"})
_LONGEST = 60  # characters that are shown of a value


def difference(found: Any, wanted: Any, where: str = "") -> str | None:
    """The first field of a document that is not as it should be, and how it should be; None where all are alike.

    Numbers are alike to nine digits, since other machines may add in another order.

    Args:
        where: the field's name.
    """
    found, wanted = _plain(found), _plain(wanted)
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return _first(_of_fields(found, wanted, where))
    if _is_list(wanted) and _is_list(found):
        if len(found) != len(wanted):
            return f"{where} has {len(found)} entries, and should have {len(wanted)}"
        return _first(difference(*pair, f"{where}{_place(where, i)}") for i, pair in enumerate(zip(found, wanted)))
    if _are_alike(found, wanted):
        return None
    return f"{where} is {_shown(found)}, and should be {_shown(wanted)}"


def _of_fields(found: Mapping, wanted: Mapping, where: str):
    for name in [*wanted, *(name for name in found if name not in wanted)]:
        inner = f"{where}.{name}" if where else str(name)
        if name not in found:
            yield f"{inner} is missing"
        elif name not in wanted:
            yield f"{inner} should not be there"
        else:
            yield difference(found[name], wanted[name], inner)


def _first(faults) -> str | None:
    return next((fault for fault in faults if fault), None)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, BaseModel) else value


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _place(where: str, index: int) -> str:
    return f" of worker {index}" if where.rsplit(".", 1)[-1] in _BY_WORKER else f"[{index}]"


def _are_alike(found: Any, wanted: Any) -> bool:
    if isinstance(found, float) or isinstance(wanted, float):
        numbers = isinstance(found, int | float) and isinstance(wanted, int | float)
        return numbers and math.isclose(found, wanted, rel_tol=1e-9)
    return type(found) is type(wanted) and found == wanted


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

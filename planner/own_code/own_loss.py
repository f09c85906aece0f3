"""A loss of the user's own: a function of logits and labels that gives one number a row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gnnplan.planner.own_code.source_file import digest_of, function_of, line_in
from gnnplan.profiles.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    RowLoss = Callable[[Tensor, Tensor], Tensor]

_LOSS = "training.loss"
_LOOKED_AT = 8  # rows of which it is seen whether they have to do with each other


def digest_of_loss(name: str) -> str:
    """SHA-256 of the file that a loss is in; `UserError` where it cannot be read."""
    return digest_of(_parted(name)[0], _LOSS)


def own_loss(name: str, sha256: str) -> RowLoss:
    """The function FILE.py:FUNCTION, which runs with the rights of whoever calls this.

    Args:
        sha256: of its file (empty: whatever it holds).

    Returns:
        What takes logits [t, C] and labels, int64 [t] or float [t, C], and gives [t]. It raises `UserError` where the
        function fails, or gives anything else, or the loss of a row depends on other rows, which is looked at once.
    """
    path, function = _parted(name)
    if sha256 and digest_of(path, _LOSS) != sha256:
        raise UserError(f"{name}: the file has changed since the plan was made; make the plan again")
    of_rows = function_of(path, function, _LOSS)

    seen: list[bool] = []

    def checked(logits: Tensor, labels: Tensor) -> Tensor:
        if not seen:
            seen.append(True)
            _check_rows_apart(name, checked, logits, labels)
        try:
            loss = of_rows(logits, labels)
        except Exception as error:
            raise UserError(f"{line_in(path, error)}: {function} failed: {error}") from error
        shape = list(getattr(loss, "shape", ())) or type(loss).__name__
        if shape != [len(logits)]:
            raise UserError(
                f"{name}: it must return one loss a row, [{len(logits)}] here, and returned {shape}; in torch's losses "
                f'that is reduction="none". gnnplan takes the mean over the training rows of all workers'
            )
        return loss

    return checked


def _check_rows_apart(name: str, of_rows: RowLoss, logits: Tensor, labels: Tensor) -> None:
    """Raises `UserError` where the loss of a row depends on other rows: then no sum over workers is the whole's."""
    import torch

    logits, labels = logits[:_LOOKED_AT].detach(), labels[:_LOOKED_AT]
    with torch.no_grad():
        together = of_rows(logits, labels)
        apart = torch.cat([of_rows(logits[k : k + 1], labels[k : k + 1]) for k in range(len(logits))])
    if not torch.allclose(together, apart, rtol=1e-4, atol=1e-6, equal_nan=True):
        raise UserError(
            f"{name}: the loss of a row depends on the other rows, and workers have some of the rows each; give every "
            f"row's loss from its own logits and labels"
        )


def _parted(name: str) -> tuple[Path, str]:
    file, _, function = name.rpartition(":")
    return Path(file), function

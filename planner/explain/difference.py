"""What makes two plans differ, as data."""

from __future__ import annotations

from pydantic import Field

from gnnplan.profiles.contract import Contract, Shown


class Change(Contract):
    """Something that two plans have differently.

    Args:
        what: the graph, the workers, the model, the training, the cluster, or a technique by its name.
        before, after: in words.
        obstacle: why no plan could be composed with this change and not yet the next one (empty: one could be).
    """

    what: str
    before: str
    after: str
    obstacle: str = ""


class Step(Contract):
    """Changes made at once, and the seconds of an epoch that they move.

    It is more than one change where no plan could be composed in between.

    Args:
        moved_s: the epoch after them less the one before (negative: it becomes shorter).
        epoch_s: after them.
    """

    changes: tuple[Change, ...] = Field(min_length=1)
    moved_s: float
    epoch_s: float = Field(gt=0)


class Difference(Shown):
    """The steps from one plan to another. What they move adds up to the difference of the epochs."""

    before_s: float = Field(gt=0)
    after_s: float = Field(gt=0)
    steps: tuple[Step, ...]

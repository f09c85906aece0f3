"""The `Weather` contract: link rates and CPU shares that change while a command runs."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from gnnplan.profiles.contract import Contract, Document
from gnnplan.profiles.errors import UserError

Factor = Annotated[float, Field(gt=0, le=1)]


class Spell(Contract):
    """From `from_s` to `to_s` after the command's start, `host` has these shares of its own rates.

    Spells that overlap multiply. `gnnplan emulate` refuses a spell that has nothing to act on: a share of what the
    cluster file does not limit, or none below 1. What `cpu` leaves of the host's cores must be 0.1 or more: less cannot
    be emulated.
    """

    host: str
    from_s: float = Field(ge=0)
    to_s: float = Field(gt=0)
    cpu: Factor = 1.0
    link: Factor = 1.0

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Self:
        if self.to_s <= self.from_s:
            raise ValueError(f"to_s {self.to_s} must be after from_s {self.from_s}")
        return self


class Weather(Document):
    """Piecewise-constant changes of a cluster."""

    KIND: ClassVar[str] = "weather"

    spells: tuple[Spell, ...] = ()

    def check_hosts(self, names: list[str]) -> None:
        """`UserError` where a spell names a host the cluster does not have."""
        for spell in self.spells:
            if spell.host not in names:
                raise UserError(f"weather: host {spell.host!r} is not in the cluster ({', '.join(names)})")

    def change_times_s(self) -> list[float]:
        """Seconds at which anything changes, ascending."""
        return sorted({edge for spell in self.spells for edge in (spell.from_s, spell.to_s)})

    def factors(self, host: str, at_s: float) -> tuple[float, float]:
        """(cpu, link) shares of a host at a moment."""
        cpu = link = 1.0
        for spell in self.spells:
            if spell.host == host and spell.from_s <= at_s < spell.to_s:
                cpu, link = cpu * spell.cpu, link * spell.link
        return cpu, link

"""When the search for a plan ends though it could go on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import SomeSeconds


class SearchSpec(Contract):
    """How long a plan is searched for. A search that ends early takes the best plan so far and says what it left.

    Args:
        longest_s: seconds; no candidate is made after them, once one fits and keeps the limits (None: as long as it
            takes).
        gap: how far the plan's epoch may be from the least that any plan could take, as a share of that. What cannot
            bring it nearer is not looked at.
    """

    longest_s: SomeSeconds | None = None
    gap: Annotated[float, Field(ge=0, le=10)] = 0.0

"""What a job takes from the planner: decisions that are settled."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gnnplan.planner.fidelity import EXACT, Fidelity, up_to
from gnnplan.planner.partial.decision import Absent
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import MAX_EPOCHS, Epochs, Workers

RefreshInterval = Annotated[int, Field(ge=1, le=10_000)]  # a trace has an epoch of each kind in turn
Partitioner = Literal["kaminpar", "metis", "ranges"]
Balance = Literal["equal", "speed", "refined"]
Prune = Literal["none", "rapa"]
DependencyMode = Literal["communicate", "cache", "hybrid"]
OpOrder = Literal["aggregate_first", "multiply_first"]


class PartialReducePin(Contract):
    """Workers go on without those that lag behind (NeutronCloud, section 5): what is left out is chosen for the
    weather of the job, or as in the paper without one.

    Args:
        alpha: peers are waited for until (1 + alpha) times what is usual (paper: 0.5).
        max_staleness: K. Rows, gradients and absences are at most K epochs old (paper: 3; 0 is exact).
        min_group: fewest workers that step without the others (paper: a majority). Fewer wait less where several lag
            behind at once, and their gradients stand for more vertices that are not theirs.
        absent: `scale` up the gradients of who is there (as the paper does), or `reuse` the last of who is not.
        closing_epochs: last ones, in which all wait for all again; their exact steps undo what groups' steps were off.
        average_epochs: last ones, the mean of whose weights the run ends with: steps of few workers jump about, and
            their mean costs no waiting (0: the last weights).
    """

    alpha: Annotated[float, Field(ge=0, le=1e12)] | None = None
    max_staleness: Annotated[int, Field(ge=0, le=MAX_EPOCHS)] | None = None
    min_group: Workers | None = None
    absent: Absent = "scale"
    closing_epochs: Epochs | None = None
    average_epochs: Annotated[int, Field(ge=0, le=MAX_EPOCHS)] = 0

    @model_validator(mode="after")
    def _averages_what_is_stale(self) -> Self:
        if self.average_epochs and self.max_staleness == 0:
            raise ValueError("average_epochs is for steps that are not exact; leave it out where max_staleness is 0")
        return self


class PinnedDecisions(Contract):
    """Decisions the user takes from the planner. What has no value when left out is the planner's to choose.

    `partial_reduce` it never does by itself.

    Args:
        balance: `equal` shares of the graph, by `speed` of the devices alone, or `refined` until all workers are
            predicted to be busy alike.
        prune: `rapa` lets workers that are busier than the mean do without the halo vertices that matter
            least. That drops aggregation edges, so it asks for fidelity `approximate`; left out, the planner prunes
            where the job's fidelity is that.
        refresh_interval: r. Halo embeddings may be reused for r - 1 epochs after one in which they are sent. 1 is
            exact, more asks for fidelity `stale`; left out it is the r of a fidelity `stale(r)`, else 1. The plan is
            `stale(r)` only where that is faster.
        feature_cache: whether workers may keep the input features of their halos.
        dependencies: how workers come by the rows of their halos: they `communicate` them, or `cache` what the rows
            are made of and make all of them, or `hybrid`: every row as it is faster. None of that changes any number.
        overlap: whether local rows are aggregated while halo rows travel.
        techniques: by name, whether a technique takes part (docs/techniques.md lists them). Who claims the same as one
            that does is left out. What is not named is the planner's to choose.
        decisions: by a technique's name, fields of its decision that are settled (its page in docs/techniques says
            which there are). Who has some takes part.
        partial_reduce: workers may go on with old halo rows and step without those that lag behind (None: never;
            with it the plan is `stale`, unless max_staleness is 0).
    """

    num_workers: Workers | None = None
    partitioner: Partitioner | None = None
    balance: Balance | None = None
    prune: Prune | None = None
    op_order: OpOrder | None = None
    precompute: bool | None = None
    sparse_features: bool | None = None
    refresh_interval: RefreshInterval | None = None
    feature_cache: bool = True
    dependencies: DependencyMode = "hybrid"
    overlap: bool | None = None
    techniques: dict[str, bool] = Field(default_factory=dict)
    decisions: dict[str, dict[str, bool | int | float | str]] = Field(default_factory=dict)
    partial_reduce: PartialReducePin | None = None

    @property
    def asked(self) -> dict[str, bool]:
        """By a technique's name, whether it takes part, where the job says it."""
        return {**dict.fromkeys(self.decisions, True), **self.techniques}

    @property
    def needs(self) -> tuple[Fidelity, str]:
        """The least fidelity that allows what is pinned, and which pin needs it."""
        if self.prune == "rapa":
            return up_to("approximate"), "prune 'rapa' drops edges"
        interval, most = self.refresh_interval or 1, self.partial_reduce.max_staleness if self.partial_reduce else 0
        if interval > 1:
            return Fidelity("stale", interval), f"refresh_interval {interval} reuses rows of earlier epochs"
        # Where nothing is said of the oldest rows, it is chosen within what is allowed.
        oldest = Fidelity("stale", 2 if most is None else most + 1) if most != 0 else EXACT
        return oldest, "partial_reduce goes on with rows of earlier epochs"

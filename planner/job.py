"""The `Job` contract: what to train, on which graph, how, and how exact it must be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, NonNegativeInt, model_validator

from gnnplan.planner.fidelity import EXACT, Fidelity, allows_decoupled, of_training, up_to
from gnnplan.planner.job_in_short import in_full
from gnnplan.planner.link.spec import LinkSpec
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.objective.spec import ObjectiveSpec
from gnnplan.planner.partial.decision import Absent
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.contract import Contract, Document
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.limits import (
    MAX_EPOCHS,
    MAX_VERTICES,
    MAX_WIDTH,
    Edges,
    Epochs,
    SomeBytes,
    Vertices,
    Width,
    Workers,
)

Fraction = Annotated[float, Field(ge=0, le=1)]
RefreshInterval = Annotated[int, Field(ge=1, le=10_000)]  # a trace has an epoch of each kind in turn
Partitioner = Literal["kaminpar", "metis", "ranges"]
Balance = Literal["equal", "speed", "refined"]
Prune = Literal["none", "rapa"]
DependencyMode = Literal["communicate", "cache", "hybrid"]
OpOrder = Literal["aggregate_first", "multiply_first"]


class GraphOptions(Contract):
    """What every source of a graph understands.

    Args:
        split: `file` takes the masks of the source; `random` draws `train_fraction` and
            `val_fraction` of the labelled vertices with `split_seed`, the rest is test; `auto`
            is `file` where the source has masks, else `random`.
        split_index: which one, where the source holds several splits.
        label_kind: `targets` takes labels as numbers to regress on, [N] or [N, T]; `auto` takes [N] as classes.
        make_undirected: add the reverse of every edge, merging duplicates.
        normalize_features: divide every feature row by its sum.
        one_hot_features: where the source has no features, a vertex has one of its own, so that the first layer trains
            a row of numbers for each of them.
        inverse_edge_types: add the reverse of every edge, of another type: R + t, where types are t of R.
        synthetic_feature_width: features to draw where the source has none (0: an error).
        synthetic_num_classes: classes to draw where the source has no labels (0: an error).
        sparse_feature_density: hold features as CSR where at most this share is non-zero.
        link: train embeddings that tell edges from other pairs of vertices, instead of labels (None: labels).
    """

    split: Literal["auto", "file", "random"] = "auto"
    split_index: NonNegativeInt = 0
    train_fraction: Fraction = 0.6
    val_fraction: Fraction = 0.2
    split_seed: NonNegativeInt = 0
    label_kind: Literal["auto", "targets"] = "auto"
    make_undirected: bool = False
    normalize_features: bool = False
    one_hot_features: bool = False
    inverse_edge_types: bool = False
    synthetic_feature_width: Annotated[int, Field(ge=0, le=MAX_WIDTH)] = 0
    synthetic_num_classes: Annotated[int, Field(ge=0, le=MAX_WIDTH)] = 0
    sparse_feature_density: Fraction = 0.1
    link: LinkSpec | None = None

    @model_validator(mode="after")
    def _fractions_leave_a_test_set(self) -> Self:
        if self.train_fraction <= 0 or self.train_fraction + self.val_fraction > 1:
            raise ValueError("train_fraction must be above 0 and train_fraction + val_fraction at most 1")
        if self.inverse_edge_types and self.make_undirected:
            raise ValueError("merged edges have no types: leave make_undirected or inverse_edge_types out")
        return self


class SbmGraph(GraphOptions):
    """Degree-corrected stochastic block model with planted labels and informative features.

    Args:
        homophily: share of edges drawn inside a class.
        degree_exponent: power-law exponent of the degree weights (larger is more even).
        feature_signal: distance of the class means in standard deviations of the noise.
    """

    source: Literal["sbm"]
    num_nodes: Vertices = 20_000
    average_degree: Annotated[float, Field(gt=0, le=MAX_VERTICES)] = 20.0
    num_classes: Width = 8
    num_features: Width = 128
    homophily: Fraction = 0.7
    degree_exponent: Annotated[float, Field(ge=1.1, le=100)] = 2.5
    feature_signal: Annotated[float, Field(ge=0, le=1e6)] = 0.5
    seed: NonNegativeInt = 0


class RmatGraph(GraphOptions):
    """R-MAT (Chakrabarti et al. 2004): skewed degrees at scale, random features and labels."""

    source: Literal["rmat"]
    num_nodes: Vertices = 100_000
    num_edges: Edges = 2_000_000
    num_classes: Width = 16
    num_features: Width = 128
    a: Fraction = 0.57
    b: Fraction = 0.19
    c: Fraction = 0.19
    seed: NonNegativeInt = 0


class NpzGraph(GraphOptions):
    """A NumPy `.npz`: `edge_index`, `num_nodes`, `x` or CSR parts `x_data/x_indices/x_indptr/x_shape`, `y`, masks."""

    source: Literal["npz"]
    path: Path


class PygGraph(GraphOptions):
    """A PyG dataset by class name from a local root, or a `Data` saved with `torch.save(data.to_dict())`.

    Args:
        root: folder holding the dataset's raw or processed files, or a `.pt` file.
        dataset: class in `torch_geometric.datasets`, e.g. `Planetoid` (not for a `.pt` file).
        dataset_name: its `name` argument, e.g. `Cora`.
    """

    source: Literal["pyg"]
    root: Path
    dataset: str = ""
    dataset_name: str = ""


class OgbGraph(GraphOptions):
    """An OGB node-property folder as downloaded: `raw/*.csv.gz` or `raw/*.npz`, and `split/`."""

    source: Literal["ogb"]
    path: Path


class EdgeListGraph(GraphOptions):
    """A text edge list, `source target` a line, `#` comments, optionally gzip-compressed.

    Args:
        features: `.npy` float array [N, F].
        labels: `.npy` integer array [N], -1 unlabelled.
        num_nodes: N; 0 takes the largest id + 1.
    """

    source: Literal["edge_list"]
    path: Path
    features: Path | None = None
    labels: Path | None = None
    num_nodes: Annotated[int, Field(ge=0, le=MAX_VERTICES)] = 0


class MemoryGraph(GraphOptions):
    """A graph that a Python program has in memory and passes beside the job; nothing can load it again."""

    source: Literal["memory"] = "memory"


class StatisticsGraph(GraphOptions):
    """A graph of which only statistics are known: enough for `gnnplan whatif`, and for nothing that needs its edges.

    Args:
        path: a file of `gnnplan statistics`, or one written by hand, `.json` or `.toml`.
    """

    source: Literal["statistics"]
    path: Path

    @model_validator(mode="after")
    def _has_no_pairs(self) -> Self:
        if self.link:
            raise ValueError("statistics know no pairs of a link prediction; leave link out")
        return self


GraphSpec = Annotated[
    SbmGraph | RmatGraph | NpzGraph | PygGraph | OgbGraph | EdgeListGraph | MemoryGraph | StatisticsGraph,
    Field(discriminator="source"),
]


class MiniBatchSpec(Contract):
    """Training by mini-batches of sampled neighbours instead: one optimizer step a batch.

    Args:
        fan_outs: neighbours drawn a hop, one per layer of the model; -1: all of them.
        batch_size: training vertices a batch.
        device_bytes: the most of a CUDA device's memory that batches, graph and features may take beside the
            model; None: what is free. Without such a device it is of no effect.
    """

    fan_outs: tuple[int, ...] = Field(min_length=1)
    batch_size: Annotated[int, Field(ge=1, le=MAX_VERTICES)] = 1024
    device_bytes: SomeBytes | None = None

    @model_validator(mode="after")
    def _draws_neighbours(self) -> Self:
        if any(fan_out == 0 or not -1 <= fan_out <= MAX_VERTICES for fan_out in self.fan_outs):
            shown = ", ".join(str(fan_out) for fan_out in self.fan_outs)
            raise ValueError(f"fan_outs {shown}: give 1 to {MAX_VERTICES} neighbours a hop, or -1 for all of them")
        return self


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


class Job(Document):
    """What to train.

    Args:
        fidelity: the most that a plan may do. `exact` gives the numbers of one device up to rounding. `stale(r)` also
            allows rows and gradients of the last r epochs, `stale` those that are pinned, of any. `approximate`
            allows these too, and what drops edges. `decoupled`, alone or behind one of these and a comma, also allows
            the decoupled form of a `gcn` or `gat`: another model, which is planned beside it.
        mini_batch: None: full batch.
        objective: what the plan is chosen for.
    """

    KIND: ClassVar[str] = "job"

    name: str = "job"
    graph: GraphSpec
    model: ModelSpec = ModelSpec()
    training: TrainingSpec = TrainingSpec()
    fidelity: Annotated[str, AfterValidator(lambda words: up_to(words) and words)] = "exact"
    pin: PinnedDecisions = PinnedDecisions()
    mini_batch: MiniBatchSpec | None = None
    objective: ObjectiveSpec = ObjectiveSpec()

    @model_validator(mode="after")
    def _batches_suit_the_model(self) -> Self:
        if self.model.kind == "module" and (self.mini_batch or self.pin.partial_reduce):
            raise ValueError(
                "a module of one's own has neither mini-batches nor pin.partial_reduce yet; leave them out"
            )
        if self.graph.link and (self.mini_batch or self.pin.partial_reduce):
            raise ValueError("a link prediction has neither mini-batches nor pin.partial_reduce yet; leave them out")
        if self.graph.link and self.pin.prune == "rapa":
            raise ValueError("a link prediction needs every pair that it trains on; leave pin.prune out")
        if self.training.loss != "auto" and (self.mini_batch or self.pin.partial_reduce):
            raise ValueError("training.loss goes with neither mini-batches nor pin.partial_reduce yet; leave it out")
        if self.graph.label_kind != "auto" and self.mini_batch:
            raise ValueError("mini-batches have no losses of targets yet; leave graph.label_kind out")
        if self.training.metric != "auto" and self.mini_batch:
            raise ValueError("mini-batches have the usual metric alone; leave training.metric out")
        if not self.training.is_plain and (self.mini_batch or self.pin.partial_reduce):
            raise ValueError(
                "training.schedule goes with neither mini-batches nor pin.partial_reduce; leave it out, and clipping, "
                "warm-up, early stopping, other optimizers and their arguments too"
            )
        if self.mini_batch is None:
            return self
        if allows_decoupled(self.fidelity):
            raise ValueError("mini-batches have no decoupled form; leave decoupled out of fidelity, or mini_batch out")
        if self.model.is_decoupled:
            raise ValueError(f"mini-batches of {self.model.kind} would need all rows of num_hops; leave mini_batch out")
        if len(self.mini_batch.fan_outs) != self.model.num_layers:
            hops = len(self.mini_batch.fan_outs)
            raise ValueError(f"mini_batch.fan_outs has {hops} hops, the model {self.model.num_layers} layers")
        if self.model.input_dropout:
            raise ValueError("mini-batches have no input_dropout; set it to 0")
        if self.pin.partial_reduce or self.training.weather:
            raise ValueError("mini-batches have neither pin.partial_reduce nor training.weather; leave them out")
        if self.objective != ObjectiveSpec():
            raise ValueError("mini-batches are planned for the shortest epoch alone; leave objective out")
        return self

    @model_validator(mode="after")
    def _pins_are_allowed(self) -> Self:
        needs, what = self.pin.needs
        if needs > self.most:
            decoupled = ", decoupled" if allows_decoupled(self.fidelity) else ""
            raise ValueError(
                f"pin.{what}, which fidelity {self.fidelity!r} does not allow; "
                f'write the line fidelity = "{needs}{decoupled}" above the first [section] of the job'
            )
        return self

    @model_validator(mode="after")
    def _has_a_decoupled_form(self) -> Self:
        if allows_decoupled(self.fidelity) and not self.is_decoupled and self.model.decoupled is None:
            raise ValueError(
                f"fidelity {self.fidelity!r} allows the decoupled form of a gcn or gat, and the model is a "
                f"{self.model.kind}; write fidelity = {of_training(self.fidelity)!r}"
            )
        return self

    @property
    def most(self) -> Fidelity:
        """The most that a plan may do."""
        return up_to(self.fidelity)

    @property
    def is_decoupled(self) -> bool:
        """Whether its model is a decoupled form that stands for the coupled one."""
        return allows_decoupled(self.fidelity) and self.model.is_decoupled

    @property
    def model_words(self) -> str:
        """The model in a few words; of one that stands for the coupled model, that it does."""
        words = self.model.words
        return f"{words}; decoupled: another model than the one asked for" if self.is_decoupled else words

    @property
    def forms(self) -> tuple[Self, ...]:
        """The job as it is, and with the decoupled form of its model where its fidelity allows that."""
        other = self.model.decoupled if allows_decoupled(self.fidelity) else None
        return (self,) if other is None else (self, self.model_copy(update={"model": other}))

    @classmethod
    def parse(cls, raw: dict[str, Any], *, where: str) -> Self:
        """Validates a decoded job, also one in short form (`gnnplan.planner.job_in_short`)."""
        return super().parse(in_full(raw, where), where=where)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads the job; relative paths are taken from the job file's folder."""
        job = super().load(path).with_paths_from(Path(path).resolve().parent)
        if job.is_decoupled:  # in a plan's job such a model stands for another; here it is the one that is asked for
            raise UserError(f"{path}: {job.model.kind} has no other form; leave decoupled out of fidelity")
        return job

    def with_paths_from(self, base: Path) -> Self:
        """The job with the relative paths of its graph, its module and its loss taken from a folder."""
        moved = {
            key: base / value
            for key in ("path", "root", "features", "labels")
            if isinstance(value := getattr(self.graph, key, None), Path) and not value.is_absolute()
        }
        model = self.model
        if model.build and not model.build_file.is_absolute():
            model = model.model_copy(update={"build": str(base / model.build)})
        training = self.training.with_paths_from(base)
        return self.model_copy(
            update={"graph": self.graph.model_copy(update=moved), "model": model, "training": training}
        )

"""The `Job` contract: what to train, on which graph, how, and how exact it must be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, model_validator

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.fidelity import Fidelity, allows_decoupled, of_training, up_to
from gnnplan.planner.graph_spec import GraphSpec
from gnnplan.planner.job_in_short import in_full
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.objective.spec import ObjectiveSpec
from gnnplan.planner.search_spec import SearchSpec
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.contract import Document
from gnnplan.profiles.errors import UserError


class Job(Document):
    """What to train.

    Args:
        fidelity: the most that a plan may do. `exact` gives the numbers of one device up to rounding. `stale(r)` also
            allows rows and gradients of the last r epochs, `stale` those that are pinned, of any. `approximate`
            allows these too, and what drops edges. `decoupled`, alone or behind one of these and a comma, also allows
            the decoupled form of a `gcn` or `gat`: another model, which is planned beside it.
        mini_batch: None: full batch.
        objective: what the plan is chosen for.
        search: how long it is searched for.
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
    search: SearchSpec = SearchSpec()

    @model_validator(mode="after")
    def _its_parts_go_together(self) -> Self:
        for words in chain(_beside_batches_or_groups(self), _beside_batches(self)):
            raise ValueError(words)
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


def _beside_batches_or_groups(job: Job) -> Iterator[str]:
    """What of a job has neither mini-batches nor workers that go on without others, where it asks for one of them."""
    if job.graph.link and job.pin.prune == "rapa":
        yield "a link prediction needs every pair that it trains on; leave pin.prune out"
    metric, link = job.training.metric, job.graph.link
    if link and metric.startswith("hits@") and int(metric.partition("@")[2]) > link.num_ranked:
        yield f"among {link.num_ranked} pairs {metric} is 100% of any model; raise graph.link.num_ranked, or take fewer"
    if not (job.mini_batch or job.pin.partial_reduce):
        return
    if job.model.kind == "module":
        yield "a module of one's own has neither mini-batches nor pin.partial_reduce yet; leave them out"
    if job.graph.link:
        yield "a link prediction has neither mini-batches nor pin.partial_reduce yet; leave them out"
    if job.training.loss != "auto":
        yield "training.loss goes with neither mini-batches nor pin.partial_reduce yet; leave it out"
    if not job.training.is_plain:
        yield (
            "training.schedule goes with neither mini-batches nor pin.partial_reduce; leave it out, and clipping, "
            "warm-up, early stopping, other optimizers and their arguments too"
        )


def _beside_batches(job: Job) -> Iterator[str]:
    """What of a job has no mini-batches, where it asks for them."""
    if job.mini_batch is None:
        return
    if job.graph.label_kind != "auto":
        yield "mini-batches have no losses of targets yet; leave graph.label_kind out"
    if job.training.metric != "auto":
        yield "mini-batches have the usual metric alone; leave training.metric out"
    if allows_decoupled(job.fidelity):
        yield "mini-batches have no decoupled form; leave decoupled out of fidelity, or mini_batch out"
    if job.model.is_decoupled:
        yield f"mini-batches of {job.model.kind} would need all rows of num_hops; leave mini_batch out"
    if (hops := len(job.mini_batch.fan_outs)) != (wanted := sum(job.model.hops_of_layers)):
        yield f"mini_batch.fan_outs has {hops} hops, and the model's {job.model.num_layers} layers sum {wanted} times"
    if job.model.input_dropout:
        yield "mini-batches have no input_dropout; set it to 0"
    if job.pin.partial_reduce or job.training.weather:
        yield "mini-batches have neither pin.partial_reduce nor training.weather; leave them out"
    if job.objective != ObjectiveSpec():
        yield "mini-batches are planned for the shortest epoch alone; leave objective out"
    if job.search != SearchSpec():
        yield "of mini-batches every way to share them out is looked at; leave search out"

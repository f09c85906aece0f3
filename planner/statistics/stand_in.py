"""A small graph that stands in for one of which only statistics are known.

Its programs have the operators, names and widths of the real ones; only their sizes are of another graph. So techniques
make the programs of statistics, as they make all others, and nothing of them is written twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.cluster import Placement
from gnnplan.planner.composition.compose import compose
from gnnplan.planner.composition.refusals import refusals
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import LAYOUT, AnyTechnique, Situation
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.models.forward import Task, forward_cycle
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.resized import first_workers
from gnnplan.planner.program.sharing import share_equal_arrays
from gnnplan.planner.search.evaluate import is_played
from gnnplan.planner.search.pins import no_plan_under, options_of, unable
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.techniques.registry import technique, techniques
from gnnplan.profiles.errors import PinnedOutError, UserError

_ROWS, _DEGREE = 24, 12  # of every worker, and of every row: enough for halos between all workers


@dataclass(frozen=True)
class Structure:
    """A program without sizes that mean anything, and the choices that it comes from."""

    choices: tuple[Choice, ...]
    layout: AnyTechnique
    cycle: Cycle


@dataclass(frozen=True)
class Shape:
    """What the operators and widths of a program depend on, beside the job."""

    num_features: int
    num_classes: int
    is_multilabel: bool
    has_sparse_features: bool

    @classmethod
    def of(cls, statistics: Statistics) -> Shape:
        """Of a graph."""
        sparse = statistics.has_sparse_features
        return cls(statistics.num_features, statistics.num_classes, statistics.is_multilabel, sparse)


class Structures:
    """Programs worth pricing, made once for jobs of one model, graphs of one shape, and a number of workers."""

    def __init__(self) -> None:
        self._made: dict[tuple, tuple[Structure, ...]] = {}

    def of(
        self, job: Job, shape: Shape, placement: Placement, *, is_alone: bool, saving: bool = False
    ) -> tuple[Structure, ...]:
        """Every layout with what all techniques propose first, and with one of them changed.

        Techniques that choose rows of the graph are left out, for statistics have none. With `saving` every layout has
        what saves memory, in all ways.

        Args:
            placement: of those workers that stand for others.
            is_alone: there is one worker in all.
        """
        size = len(placement.workers)
        profiles = (placement.profile_of(rank) for rank in range(size))
        # What a profile has no table of, techniques do not propose.
        kinds = tuple((profile.device_kind, frozenset(profile.operators)) for profile in profiles)
        key = (job.model, job.pin.model_dump_json(), job.training, job.fidelity, shape, size, kinds, is_alone, saving)
        if key not in self._made:
            setting = _setting(job, shape, placement, max(size, 1 if is_alone else 2))
            self._made[key] = _structures(setting, _saving(setting) if saving else _choices(setting), size)
        return self._made[key]


def _structures(setting: Setting, proposed: Iterable[list[Choice]], num_workers: int) -> tuple[Structure, ...]:
    found: dict[frozenset, Structure] = {}
    for choices in proposed:
        key = frozenset(choice.key for choice in choices)
        if key not in found and not refusals(choices, setting.job.most):
            cycle = _composed(setting, choices)
            if is_played(cycle):
                layout = next(technique(c.technique) for c in choices if LAYOUT in technique(c.technique).claims)
                found[key] = Structure(tuple(choices), layout, first_workers(cycle, num_workers))
    return tuple(found.values())


def _setting(job: Job, shape: Shape, placement: Placement, size: int) -> Setting:
    """A job on a small graph of which every worker has some rows of each split, and halo rows of all others."""
    if job.model.kind == "module":
        raise UserError(
            f"{job.name}: a module of one's own is not priced from statistics; plan it on a graph, or take a fixed kind"
        )
    workers = (placement.workers * size)[:size]
    placement = placement.model_copy(update={"workers": workers})
    n, random = _ROWS * size, np.random.default_rng(0)
    edge_index = np.stack([random.integers(0, n, n * _DEGREE), np.repeat(np.arange(n), _DEGREE)])
    x: np.ndarray | sp.csr_matrix = np.zeros((n, 1), np.float32)
    entries = None
    if shape.has_sparse_features or job.pin.sparse_features:
        x, entries = sp.csr_matrix((n, 1), dtype=np.float32), np.ones(n, np.int64)
    train, val, test = (np.arange(n) % 4 == number for number in range(3))
    graph = Graph(n, edge_index, x, np.zeros(n, np.int64), train, val, test, shape.num_classes, "stand-in")
    matrix = aggregation_matrix(n, edge_index, job.model.kind)
    task = Task(matrix, shape.num_features, shape.num_classes, (train, val, test), entries, shape.is_multilabel)
    forward = forward_cycle(job.model, task, seed=0, dense_features=True)
    return Setting(job, graph, matrix, forward, placement, (1.0,) * size, {})


def _choices(setting: Setting) -> Iterator[list[Choice]]:
    layouts = [each for each in techniques().values() if LAYOUT in each.claims]
    others = [each for each in techniques().values() if LAYOUT not in each.claims and not each.arrays]
    proposed = [options_of(each, setting, None) for each in others]
    if not all(proposed):
        raise PinnedOutError(no_plan_under(setting.job))
    plain = [options[0] for options in proposed]
    for layout in layouts:
        if not (first := _laid_out(layout, setting)):
            continue
        yield _some(first, plain)
        for number, options in enumerate(proposed):
            for option in options[1:]:
                yield _some(first, [*plain[:number], option, *plain[number + 1 :]])


def _saving(setting: Setting) -> Iterator[list[Choice]]:
    """Every layout with what all techniques propose first, and with all that those propose that save memory."""
    others = [each for each in techniques().values() if LAYOUT not in each.claims and not each.arrays]
    plain = [next(iter(options_of(each, setting, None)), None) for each in others if not each.saves_memory]
    ways = [_ways(each, setting) for each in others if each.saves_memory]
    for layout in (each for each in techniques().values() if LAYOUT in each.claims):
        if first := _laid_out(layout, setting):
            for saved in product(*ways):
                if any(saved):
                    yield _some(first, [*plain, *saved])


def _ways(each: AnyTechnique, setting: Setting) -> list[Choice | None]:
    """What a technique proposes that saves memory, as far as the job pins nothing else."""
    if each.name in setting.job.pin.asked or unable(each, setting.forward):
        return options_of(each, setting, None)
    return [None, *each.to_save(setting)]


def _some(first: Choice, others: Sequence[Choice | None]) -> list[Choice]:
    return [first, *(choice for choice in others if choice)]


def _laid_out(layout: AnyTechnique, setting: Setting) -> Choice | None:
    """What a layout proposes first; contiguous parts are enough where it cuts some, whatever partitioner is meant."""
    proposed = next(iter(options_of(layout, setting, None)), None)
    if proposed is None or not proposed.arrays:
        return proposed
    part = np.repeat(np.arange(setting.num_workers, dtype=np.int32), _ROWS)
    contiguous = Choice(proposed.technique, proposed.decision, {name: part for name in proposed.arrays})
    return proposed if layout.fault(contiguous, setting) else contiguous


def _composed(setting: Setting, choices: Sequence[Choice]) -> Cycle:
    situation = Situation(setting.job.model, setting.num_workers, setting.placement.host_of)
    optimizer = Optimizer.of(setting.job.training)
    return share_equal_arrays(compose(setting.forward, choices, situation, optimizer))

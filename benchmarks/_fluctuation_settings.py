"""The settings of `fluctuation`: hosts, graphs and models, variants, and the weathers that they meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import PositiveFloat

from benchmarks._common import DATASETS, fingerprint_of
from benchmarks._emulated import MAX_TRIES, MBIT
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.emulation.weather import Spell, Weather
from gnnplan.planner.graph_spec import NpzGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PartialReducePin, PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.partial.rule import WARM_UP_EPOCHS
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.planner.weather.model import MarkovWeather, SleepWeather, TwoState, WorkerWeather
from gnnplan.profiles.machine import Link

CALM, SLEEP_5_S, SLEEP_2_EPOCHS, CHANGES = "calm", "sleep 5 s", "sleep 2 epochs", "links and processors"
ALL_COMMUNICATED, ALL_CACHED, HYBRID = "all communicated", "all cached", "hybrid"
STATIC = (ALL_COMMUNICATED, ALL_CACHED, HYBRID)
PARTIAL, TOTAL = "all communicated, partial reduce", "hybrid, partial reduce"
HALF = "hybrid, partial reduce by half"  # of the hosts, where the paper's groups are majorities
_COMMUNICATED = {"dependencies": "communicate"}
_AVERAGE_EPOCHS = 50  # the last quarter of a run whose accuracy is looked at; how long epochs take it does not change
VARIANTS: dict[str, dict] = {
    ALL_COMMUNICATED: _COMMUNICATED,
    ALL_CACHED: {"dependencies": "cache"},
    HYBRID: {},
    PARTIAL: {**_COMMUNICATED, "partial_reduce": PartialReducePin(average_epochs=_AVERAGE_EPOCHS)},
    TOTAL: {"partial_reduce": PartialReducePin(average_epochs=_AVERAGE_EPOCHS)},
    HALF: {"partial_reduce": PartialReducePin(min_group=2, average_epochs=_AVERAGE_EPOCHS)},
}
_SEED = 1
_LINK_SHARES, _CPU_SHARES = (0.1, 0.5), (0.25, 0.5)  # an emulated quota is a tenth of a core at least
_DRAWN_WINDOWS = 4  # a run may last longer than what is looked at
_CALM_EPOCHS = WARM_UP_EPOCHS + 1  # before the first spell


@dataclass(frozen=True)
class Row:
    """A graph and a model, in every variant under the same order of operators."""

    name: str
    graph: NpzGraph | SbmGraph
    model: ModelSpec
    op_order: str
    precompute: bool = False

    def job(self, variant: str, training: TrainingSpec) -> Job:
        """The variant's job; pydantic's `ValidationError` where its pins do not combine."""
        pins = VARIANTS[variant]
        pin = PinnedDecisions(
            partitioner="metis",
            balance="equal",
            op_order=self.op_order,
            precompute=self.precompute,
            overlap=False,
            **pins,
        )
        fidelity = "stale" if "partial_reduce" in pins else "exact"
        return Job(
            schema_version=1,
            name=variant,
            graph=self.graph,
            model=self.model,
            training=training,
            fidelity=fidelity,
            pin=pin,
        )

    def settings(self) -> list[object]:
        """All that the row is but its variants; which graph it is counts, not where it lies."""
        graph, model = (spec.model_dump(mode="json", exclude={"path"}) for spec in (self.graph, self.model))
        return [self.name, graph, model, self.op_order, self.precompute]


@dataclass(frozen=True)
class Scale:
    """How much is run.

    Args:
        cores: of every host (None: no quota); link_mbit: Mbit/s of every host.
        is_profiled: hosts are profiled where they run; else a catalog device stands in.
        rows: names of `row_of`.
        weathers: beside the calm.
        calm_epochs, sleep_epochs, most_epochs: of a run in calm, of one under sleeps, and of any.
        window_s: of changing rates, in which epochs are looked at.
        spell_s, pause_s: least and most seconds of a spell, and between two.
        accuracy_graphs: on which accuracies are compared.
        tries: of a run while processor time is stolen from this machine.
    """

    num_hosts: int
    cores: float | None
    link_mbit: float
    is_profiled: bool
    rows: tuple[str, ...]
    variants: tuple[str, ...]
    weathers: tuple[str, ...]
    calm_epochs: int
    sleep_epochs: int
    most_epochs: int
    window_s: float
    spell_s: tuple[float, float]
    pause_s: tuple[float, float]
    accuracy_graphs: tuple[str, ...]
    tries: int

    def fingerprint(self, row: Row) -> str:
        """Of the settings that a row's figures are of."""
        pins = {variant: VARIANTS[variant] for variant in self.variants}
        lengths = [self.calm_epochs, self.sleep_epochs, self.most_epochs, self.window_s, self.spell_s, self.pause_s]
        hosts = [self.num_hosts, self.cores, self.link_mbit, self.is_profiled]
        weathers = [self.weathers, _SEED, _LINK_SHARES, _CPU_SHARES, _CALM_EPOCHS, told_weather(self)]
        return fingerprint_of([row.settings(), pins, hosts, lengths, weathers])

    def cluster(self) -> Cluster:
        """Equal hosts; the catalog device stands in until they are profiled."""
        return Cluster(
            schema_version=1,
            name="fluctuation",
            hosts=tuple(
                HostSpec(
                    name=f"h{index}",
                    devices=(DeviceSpec(catalog="t4"),),
                    cpu_cores=self.cores,
                    link=Link(bytes_per_s=PositiveFloat(self.link_mbit * MBIT)),
                )
                for index in range(self.num_hosts)
            ),
        )


FULL = Scale(
    num_hosts=4,
    cores=0.45,
    link_mbit=1000,
    is_profiled=True,
    rows=("sage sbm", "gcn coauthor_physics"),
    variants=tuple(VARIANTS),
    weathers=(SLEEP_5_S, SLEEP_2_EPOCHS, CHANGES),
    calm_epochs=20,
    sleep_epochs=32,
    most_epochs=600,
    window_s=80.0,
    spell_s=(10.0, 25.0),
    pause_s=(0.0, 5.0),
    accuracy_graphs=("amazon_photo", "coauthor_cs"),
    tries=MAX_TRIES,
)
QUICK = Scale(
    num_hosts=2,
    cores=None,
    link_mbit=20,
    is_profiled=False,
    rows=("gcn small",),
    variants=(ALL_COMMUNICATED, TOTAL),
    weathers=(CHANGES,),
    calm_epochs=8,
    sleep_epochs=8,
    most_epochs=12,
    window_s=60.0,
    spell_s=(0.2, 0.4),
    pause_s=(0.0, 0.1),
    accuracy_graphs=(),
    tries=1,
)


@dataclass(frozen=True)
class RunWeather:
    """What a run meets: sleeps that the runtime injects, changes of its hosts' rates, or neither.

    Args:
        told: what the planner is told of the changes: how they are on average, not when they come.
        until_s: after the weather's begin; epochs that end later are left out, so that all variants meet the same.
    """

    name: str
    sleeps: SleepWeather | None = None
    changes: Weather | None = None
    told: MarkovWeather | None = None
    until_s: float = math.inf


def row_of(name: str) -> Row:
    """A row by its name, whether its graph is here or not."""
    kind, _, graph = name.partition(" ")
    if graph == "small":
        spec = SbmGraph(source="sbm", num_nodes=600, average_degree=8, num_features=16, num_classes=4)
        return Row(name, spec, ModelSpec(kind=kind, hidden_channels=16), "multiply_first")
    if graph == "sbm":
        spec = SbmGraph(
            source="sbm", num_nodes=120_000, average_degree=20, num_features=256, num_classes=16, homophily=0.8
        )
        model = ModelSpec(kind=kind, num_layers=3, hidden_channels=128)
        return Row(name, spec, model, "aggregate_first", precompute=True)
    real = NpzGraph(source="npz", path=DATASETS / f"{graph}.npz")
    return Row(name, real, ModelSpec(kind=kind, hidden_channels=256), "multiply_first")


def weathers_of(scale: Scale, epoch_s: float, slowest_s: float) -> list[RunWeather]:
    """The weathers of a row, the calm first; the same for all variants.

    Args:
        epoch_s: predicted, of the fastest static plan in calm: what "2 epochs" are.
        slowest_s: of the slowest plan: its warm-up shall be over when rates begin to change.
    """
    hosts = [host.name for host in scale.cluster().hosts]
    begin_s = _CALM_EPOCHS * slowest_s
    made = {
        SLEEP_5_S: RunWeather(SLEEP_5_S, sleeps=SleepWeather(sleep_s=PositiveFloat(5.0), seed=_SEED)),
        SLEEP_2_EPOCHS: RunWeather(
            SLEEP_2_EPOCHS,
            sleeps=SleepWeather(sleep_s=PositiveFloat(2 * epoch_s), duration_epochs=5, seed=_SEED),
        ),
        CHANGES: RunWeather(
            CHANGES,
            changes=drawn_weather(hosts, scale, begin_s),
            told=told_weather(scale),
            until_s=begin_s + scale.window_s,
        ),
    }
    return [RunWeather(CALM), *(made[name] for name in scale.weathers)]


def told_weather(scale: Scale) -> MarkovWeather:
    """The mean of what `drawn_weather` draws: two of three spells are of a host's link, two of three of its processor.

    Its spells are of one host after another; here they are of each by itself.
    """
    spell_s, pause_s = float(np.mean(scale.spell_s)), float(np.mean(scale.pause_s))
    fair_s = scale.num_hosts * (spell_s + pause_s) * 3 / 2 - spell_s
    link, compute = (
        TwoState(share=float(np.mean(shares)), fair_s=fair_s, slow_s=spell_s) for shares in (_LINK_SHARES, _CPU_SHARES)
    )
    return MarkovWeather(workers=(WorkerWeather(compute=compute, link=link),) * scale.num_hosts, seed=_SEED)


def drawn_weather(hosts: Sequence[str], scale: Scale, begin_s: float) -> Weather:
    """Spells one after another, each on another host than the last, of its link, its processor, or both.

    Drawn from one seed: the same spells for every row, from `begin_s` on.
    """
    rng = np.random.default_rng(_SEED)
    spells: list[Spell] = []
    now_s, last = begin_s, ""
    while now_s < begin_s + _DRAWN_WINDOWS * scale.window_s:
        last = str(rng.choice([host for host in hosts if host != last]))
        what, length_s = rng.choice(["link", "cpu", "both"]), float(rng.uniform(*scale.spell_s))
        link, cpu = float(rng.uniform(*_LINK_SHARES)), float(rng.uniform(*_CPU_SHARES))
        spells.append(
            Spell(
                host=last,
                from_s=now_s,
                to_s=now_s + length_s,
                link=1.0 if what == "cpu" else link,
                cpu=1.0 if what == "link" else cpu,
            )
        )
        now_s += length_s + float(rng.uniform(*scale.pause_s))
    return Weather(schema_version=1, spells=tuple(spells))

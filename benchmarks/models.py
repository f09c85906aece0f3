"""Modules of people's own against one PyG process: traced, planned, and trained on two workers for five steps.

All 42 tuned baselines of `_models_settings`, other modules, some with layers that run their own code
(`_models_layers`), and six that must be refused. Graphs are random, for only numbers count here; the plans are those of
the search, on two published devices. What is compared is the loss of every step, and all parameters and running
statistics together, in relative L2 against PyG in float64.

Each plan is played twice: by the sequential executor in float64, which says whether it is exact, and by two workers in
float32. Deep models magnify rounding, PyG's own too, so PyG in float32 stands beside the latter.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks import _models_layers
from benchmarks._models_layers import NUM_EDGE_FEATURES, OWN
from benchmarks._models_modules import MORE, REFUSED, Build, Tuned
from benchmarks._models_settings import SETTINGS
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import MemoryGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.module_state import matrices_of, store
from gnnplan.planner.plan_files import load_partition
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.program_shard import inputs_on_edges, rows_on_edges
from gnnplan.planner.run import cycle_of, prepare_run
from gnnplan.planner.sound_plan import load_plan
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.launch import launch
from gnnplan.runtime.module_reference import train_module
from gnnplan.runtime.reference import dense_features

ROOT = Path(__file__).parent.parent
NUM_WORKERS = 2
TRAINING = TrainingSpec(epochs=5, optimizer="sgd", learning_rate=0.01, seed=5)


def main(quick: bool) -> dict:
    """Plans all of them, trains them by one launch of workers, and compares."""
    spec = SbmGraph(source="sbm", num_nodes=200 if quick else 600, average_degree=8, num_features=40, num_classes=6)
    graph, modules = _with_edges(generate_sbm(spec)), dict(_modules(quick))
    with tempfile.TemporaryDirectory(prefix="gnnplan-models-") as name:
        folder = Path(name)
        made = {each: _built(build, graph) for each, build in modules.items()}
        rows = [_planned(each, module, graph, folder) for each, module in made.items()]
        _train(folder)
        for row in rows:
            row |= _compared(made[row["module"]], graph, folder / row["folder"])
            print(f"{row['module']}: {row['rel_l2']:.1e}", flush=True)
            del row["folder"]
    refused = [_refused(kind, graph) for kind in REFUSED]
    _show(rows, refused)
    return {
        "configurations": sum(row["is_tuned"] for row in rows),
        "traced": len(rows),
        "max_rel_l2": max(row["rel_l2"] for row in rows),
        "max_of_change_rel_l2": max(row["of_change_rel_l2"] for row in rows),
        **_of_rounding(rows),
        "refused_clearly": sum(row["is_clear"] for row in refused),
        "rows": rows,
        "refused": refused,
    }


def _of_rounding(rows: list[dict]) -> dict[str, float]:
    """Median and worst of float32, of the workers and of PyG."""
    found: dict[str, float] = {}
    for name in ("workers_float32_rel_l2", "pyg_float32_rel_l2"):
        values = sorted(row[name] for row in rows)
        found |= {f"median_{name}": values[len(values) // 2], f"max_{name}": values[-1]}
    return found


def _modules(quick: bool) -> Iterator[tuple[str, Build]]:
    for setting in (SETTINGS[0], SETTINGS[10], SETTINGS[14]) if quick else SETTINGS:
        yield setting.name, partial(Tuned, setting=setting, width=16 if quick else setting.width)
    yield from list(MORE.items())[:1] if quick else MORE.items()
    yield from list(OWN.items())[:2] if quick else OWN.items()


def _with_edges(graph: Graph) -> Graph:
    """The graph with features of edges."""
    features = np.random.default_rng(0).normal(size=(graph.num_edges, NUM_EDGE_FEATURES)).astype(np.float32)
    return replace(graph, edge_values={"edge_attr": features})


def _built(build: Build, graph: Graph) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(TRAINING.seed)
        return build(graph.num_features, graph.num_classes)


def _planned(name: str, module: nn.Module, graph: Graph, folder: Path) -> dict:
    """Plans a module and writes what its workers need."""
    at = f"{len(list(folder.iterdir())):03}"
    job = Job(
        graph=MemoryGraph(),
        model=_spec(name, module),
        training=TRAINING,
        pin=PinnedDecisions(num_workers=NUM_WORKERS),
    )
    plan = api.plan(job, _cluster(folder), folder / at / "made.json", graph=graph)
    held = None if name in OWN else module
    prepare_run(folder / at / "made.json", folder / at, graph=graph, module=held)
    techniques = [chosen.technique for chosen in plan.choices]
    return {"module": name, "is_tuned": isinstance(module, Tuned), "techniques": techniques, "folder": at}


def _spec(name: str, module: nn.Module) -> ModelSpec:
    """The module as it is; with layers that run their code, the file and the function that workers import."""
    if name in OWN:
        return ModelSpec(kind="module", build=f"{_models_layers.__file__}:{OWN[name].__name__}")
    return ModelSpec(kind="module").holding(module)


def _cluster(folder: Path) -> Cluster:
    """Two workers with a published GPU's figures, as CPUs."""
    path = folder / "profile.json"
    if not path.exists():
        catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    return Cluster(hosts=(HostSpec(name="here", devices=(DeviceSpec(profile=path, count=NUM_WORKERS),)),))


def _train(folder: Path) -> None:
    launch(
        "benchmarks._models_worker",
        [str(folder)],
        hosts=[HostGroup(NUM_WORKERS)],
        folder=folder,
        environment={"PYTHONPATH": str(ROOT)},
    )


def _compared(module: nn.Module, graph: Graph, folder: Path) -> dict:
    """Relative L2 of the plan's program and of its training, and beside them of PyG's own in float32."""
    right, losses = train_module(module, graph, TRAINING, torch.float64)
    want = right.state_dict()
    alone, losses_alone = train_module(module, graph, TRAINING)
    played, losses_played = _played(module, graph, folder)
    found = torch.load(folder / "model.pt", weights_only=True)
    losses_found = json.loads((folder / "losses.json").read_text())
    return {
        "rel_l2": max(_off(played, want), _apart(losses_played, losses)),
        "of_change_rel_l2": _off(played, want, module.state_dict()),
        "workers_float32_rel_l2": max(_off(found, want), _apart(losses_found, losses)),
        "pyg_float32_rel_l2": max(_off(alone.state_dict(), want), _apart(losses_alone, losses)),
    }


def _played(module: nn.Module, graph: Graph, folder: Path) -> tuple[dict[str, torch.Tensor], list[float]]:
    """What the plan's program makes of a module in float64, and the losses."""
    plan = load_plan(folder / "plan.json")
    if not plan.job.model.build:
        plan.job.model.holding(module)
    cycle = cycle_of(plan, graph, load_partition(plan, folder / "plan.json"))
    module = deepcopy(module).double()
    x, y, ids = torch.from_numpy(dense_features(graph)), torch.from_numpy(graph.y)[:, None], cycle.arrays.ids  # type: ignore[union-attr]
    inputs = {"x": [x[each] for each in ids["v@0"]], "y": [y[each] for each in ids[cycle.values["y"].space]]}
    for name in inputs_on_edges(cycle):
        inputs[name] = [torch.from_numpy(rows_on_edges(cycle, graph, name, worker)) for worker in cycle.workers]
    start = matrices_of(module, cycle)
    executor = SequentialExecutor(cycle, inputs, start, module=module)
    results = [executor.run(cycle.order[0], epoch) for epoch in range(TRAINING.epochs)]
    store(module, cycle, {name: executor.stored[name][0] for name in start}, TRAINING.epochs)
    return module.state_dict(), [float(each["total_loss"][0]) for each in results]


def _off(
    found: dict[str, torch.Tensor], right: dict[str, torch.Tensor], start: dict[str, torch.Tensor] | None = None
) -> float:
    """The distance between two states, over the length of the right one, or of what it has changed since the start."""
    assert found.keys() == right.keys()
    got, want, before = (_flat(each, right) if each else torch.zeros(1) for each in (found, right, start))
    return float((got - want).norm() / (want - before).norm())


def _flat(state: dict[str, torch.Tensor], names: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([state[name].double().flatten() for name in names])


def _apart(found: list[float], right: list[float]) -> float:
    return max(abs(one - other) / abs(other) for one, other in zip(found, right, strict=True))


def _refused(kind: type[nn.Module], graph: Graph) -> dict:
    """Whether a module is refused in one line that names the line of its forward."""
    module = _built(kind, graph)
    job = Job(graph=MemoryGraph(), model=ModelSpec(kind="module").holding(module))
    try:
        api.plan(job, catalog_profile("t4"), graph=graph)
    except UserError as error:
        message = str(error)
        where, _, why = message.partition(": ")
        is_clear = Path(where.rpartition(":")[0]).name == "_models_modules.py" and "\n" not in message
        return {"module": kind.__name__, "is_clear": is_clear, "why": why}
    return {"module": kind.__name__, "is_clear": False, "why": "it was not refused"}


def _show(rows: list[dict], refused: list[dict]) -> None:
    table = Table(title="relative L2 against PyG in float64 after five steps")
    for column in ("module", "program", "two workers in float32", "PyG in float32", "techniques"):
        table.add_column(column)
    for row in rows:
        techniques = ", ".join(row["techniques"])
        figures = (row[name] for name in ("rel_l2", "workers_float32_rel_l2", "pyg_float32_rel_l2"))
        table.add_row(row["module"], *(f"{each:.1e}" for each in figures), techniques)
    for row in refused:
        table.add_row(row["module"], "refused" if row["is_clear"] else "NOT CLEAR", "", "", row["why"])
    Console().print(table)

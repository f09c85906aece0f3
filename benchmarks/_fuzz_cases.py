"""The cases: a sound document or graph with a few mutations, and what a verb would do with it."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from benchmarks._exactness_cases import logits_of
from benchmarks._exactness_training import train_alone, train_sequentially
from benchmarks._fuzz_corpus import EDITS, GRAPH, Corpus
from gnnplan.planner import api
from gnnplan.planner.calibrate import calibrate
from gnnplan.planner.checkpoints import FOLDER, MANIFEST_FILE, checkpoints_in, name_of, part_file
from gnnplan.planner.cluster import Cluster, resolve
from gnnplan.planner.compare import compare
from gnnplan.planner.graph_spec import EdgeListGraph, NpzGraph, PygGraph, RmatGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.plan import Plan
from gnnplan.planner.report.program import program_tables
from gnnplan.planner.run import cycle_of
from gnnplan.planner.search import simulate_plan
from gnnplan.planner.sound_plan import load_plan
from gnnplan.planner.sweep.contract import Sweep
from gnnplan.planner.trace import Trace
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import MachineProfile
from gnnplan.runtime.checkpoint.parts import Likes, read_part, write_part

FINDINGS = ("tracebacks", "hangs", "over_memory", "silently_wrong")
OUTCOMES = ("refused", "accepted", *FINDINGS)
_MOST_MADE = 2_000_000  # numbers of a generated graph: larger ones that fit memory are sound, and slow
_NUM_CASES = 200_000
_SLOW = ("plan", "exact", "profile", "sweep")  # these are simulated, which takes a hundred times as long
_TIMES_AS_OFTEN = 12
_ODD: tuple[Any, ...] = (
    *(0, -1, 1, 2, 255, 2**31 - 2, 2**31, 2**53 + 1, 2**62, 10**30, 0.0, -0.5, 1e-300, 1e-9, 0.5, 1.5, 1e15, 1e308),
    *(
        "",
        "x",
        "..",
        "/dev/zero",
        "a/b",
        "a\0b",
        "\ud800",
        "nan",
        None,
        True,
        [],
        {},
        [0],
        [[1]],
        {"x": 1},
        [1e308] * 3,
    ),
)
_GRAPHS = {"npz": "graph.npz", "edge_list": "graph.txt", "pyg": "graph.pt"}
_CHECKPOINT = "checkpoint"


_DOCUMENTS = {
    "job": Job,
    "links": Job,
    "cluster": Cluster,
    "profile": MachineProfile,
    "trace": Trace,
    "sweep": Sweep,
}


class SilentlyWrongError(Exception):
    """An edited plan was accepted and trains to other losses than its job does on one device."""


@dataclass(frozen=True)
class Case:
    """One mutated input; `use` raises what a user would be told."""

    name: str
    kind: str
    use: Callable[[], object]


def cases_of(corpus: Corpus) -> Iterator[Case]:
    """First what once went wrong, then mutations by seed, the kinds in turn."""
    for kind, path, value in EDITS:
        raw = copy.deepcopy(corpus.documents[kind])
        _put(raw, path, value)
        yield _document(corpus, kind, raw, f"{kind} {path} = {value!r}")
    slow = [kind for kind in corpus.documents if kind in _SLOW]
    fast = [kind for kind in (*corpus.documents, *_GRAPHS, _CHECKPOINT) if kind not in _SLOW]
    kinds = fast * _TIMES_AS_OFTEN + slow
    for seed in range(_NUM_CASES):
        kind = kinds[seed % len(kinds)]
        name = f"{kind} seed {seed}"
        if kind == _CHECKPOINT:
            yield Case(name, kind, lambda seed=seed: _use_checkpoint(corpus, seed))
        elif kind in _GRAPHS:
            yield Case(name, kind, lambda kind=kind, seed=seed: _use_graph(corpus, kind, seed))
        else:
            yield Case(name, kind, lambda kind=kind, seed=seed: _use_mutated(corpus, kind, seed))


def _document(corpus: Corpus, kind: str, raw: dict, name: str) -> Case:
    return Case(name, kind, lambda: _use(corpus, kind, raw))


def _use_mutated(corpus: Corpus, kind: str, seed: int) -> None:
    rng = random.Random(seed)
    raw = mutated(corpus.documents[kind], rng)
    if rng.random() < 0.1:  # as bytes, through a file
        data = bytearray(json.dumps(raw).encode("utf-8", "surrogatepass"))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path = corpus.folder / f"mutated_{kind}.json"
        path.write_bytes(data[: rng.choice((len(data), rng.randrange(len(data))))])
        _DOCUMENTS.get(kind, Plan).load(path)
        return
    _use(corpus, kind, raw)


def _use(corpus: Corpus, kind: str, raw: dict) -> None:
    """As the verbs do."""
    if kind in ("job", "links"):
        graph = Job.parse(raw, where="job").graph
        if not isinstance(graph, SbmGraph | RmatGraph) or _num_made(graph) < _MOST_MADE or _is_beyond_memory(graph):
            api.load_graph(graph)
    elif kind == "cluster":
        resolve(Cluster.parse(raw, where="cluster"))
    elif kind == "sweep":
        api.whatif(corpus.job, Sweep.parse(raw, where="sweep"))
    elif kind == "profile":
        profile = MachineProfile.parse(raw, where="profile")
        place = corpus.plan.placement
        profiles = dict.fromkeys(place.profiles, profile)
        placement = place.model_copy(update={"profiles": profiles})
        simulate_plan(corpus.plan.model_copy(update={"placement": placement}), 5)
    elif kind == "trace":
        trace = Trace.parse(raw, where="trace")
        compare(corpus.predicted, trace)
        calibrate([(corpus.plan, trace)])
    else:
        path = corpus.folder / "mutated_plan.json"
        path.write_text(json.dumps(raw))
        plan = load_plan(path)
        simulate_plan(plan, 5)
        program_tables(plan)


def _num_made(graph: SbmGraph | RmatGraph) -> float:
    edges = graph.num_edges if isinstance(graph, RmatGraph) else graph.num_nodes * graph.average_degree
    return graph.num_nodes * (graph.num_features + 4) + edges + graph.num_classes * graph.num_features


def _is_beyond_memory(graph: SbmGraph | RmatGraph) -> bool:
    return _num_made(graph) > 2**40


def mutated(document: Any, rng: random.Random) -> Any:
    """A copy with one to three fields replaced, removed, doubled or exchanged."""
    raw = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        path = _some_path(raw, rng)
        if path:
            at = raw
            for name in path[:-1]:
                at = at[name]
            _mutate(at, path[-1], rng)
    return raw


def _some_path(raw: Any, rng: random.Random) -> list:
    """To a field, mostly a deep one: the way down ends where there is no further, or by chance."""
    path: list = []
    while isinstance(raw, dict | list) and raw and (not path or rng.random() < 0.9):
        name = rng.choice(list(raw) if isinstance(raw, dict) else range(len(raw)))
        path.append(name)
        raw = raw[name]
    return path


def _mutate(at: Any, name: Any, rng: random.Random) -> None:
    how = rng.random()
    old = at[name]
    if how < 0.1:
        del at[name]
    elif how < 0.2 and isinstance(at, list):
        at.append(copy.deepcopy(old))
    elif how < 0.3:
        other = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
        at[name], at[other] = at[other], at[name]
    elif how < 0.8 and isinstance(old, int | float) and not isinstance(old, bool):
        at[name] = rng.choice((old + 1, old - 1, old * 2, -old, old * 10**6, old / 3))
    else:
        at[name] = copy.deepcopy(rng.choice(_ODD))


def _put(raw: Any, path: tuple, value: Any) -> None:
    for name in path[:-1]:
        raw = raw[name]
    raw[path[-1]] = value


def _use_graph(corpus: Corpus, kind: str, seed: int) -> None:
    rng = random.Random(seed)
    source = corpus.folder / _GRAPHS[kind]
    path = corpus.folder / f"mutated{source.suffix}"
    if rng.random() < 0.4 or kind == "edge_list":
        data = bytearray(source.read_bytes())
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.3:
            data += rng.choice(
                (b"2147483646 0\n", b"1 99999999999999999999\n", b"-1 0\n", b"0 1 2\n", b"\0", b"1e9 2\n")
            )
        path.write_bytes(data[: rng.choice((len(data), len(data), rng.randrange(len(data))))])
    elif kind == "npz":
        with np.load(source) as arrays:
            np.savez(path, **{name: _odd_array(arrays[name], rng) for name in arrays.files if rng.random() < 0.95})
    else:
        values = torch.load(source, weights_only=True)
        torch.save({name: _odd_tensor(each, rng) for name, each in values.items()}, path)
    drawn = {"synthetic_feature_width": 4, "synthetic_num_classes": 3}
    if kind == "npz":
        api.load_graph(NpzGraph(source="npz", path=path))
    elif kind == "pyg":
        api.load_graph(PygGraph(source="pyg", root=path))
    else:
        api.load_graph(EdgeListGraph(source="edge_list", path=path, **drawn))


def _use_checkpoint(corpus: Corpus, seed: int) -> None:
    """A part of odd arrays, a manifest of odd fields, or a byte that has changed since; read as a run reads them."""
    rng = random.Random(seed)
    made = corpus.folder / "kept" / FOLDER / name_of(4)
    made.mkdir(parents=True, exist_ok=True)
    path, sound = made / part_file(0), {"weight": np.ones((3, 2), np.float32), "losses": np.ones(4)}
    arrays = {name: _odd_array(each, rng) for name, each in sound.items() if rng.random() < 0.95}
    part = write_part(path, arrays)
    raw = {"schema_version": 1, "plan": "0" * 16, "training": "1" * 16, "epoch": 4, "parts": [part.model_dump()]}
    how = rng.random()
    (made / MANIFEST_FILE).write_text(json.dumps(mutated(raw, rng) if how < 0.5 else raw))
    if how > 0.8:
        data = bytearray(path.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    whole, faults = checkpoints_in(corpus.folder / "kept")
    if not whole:
        raise UserError(faults[0])
    like: Likes = {"weight": ((3, 2), np.dtype(np.float32)), "losses": ((None,), np.dtype(np.float64))}
    found = read_part(path, whole[0].manifest.parts[0], like)
    if any(not np.array_equal(found[name], arrays[name]) for name in like):
        raise SilentlyWrongError("what was read is not what was written")


def _odd_array(array: np.ndarray, rng: random.Random) -> np.ndarray:
    if rng.random() < 0.6:
        return array
    if rng.random() < 0.4:
        return array.astype(rng.choice((np.float64, np.float16, np.int8, np.uint64, bool, "U4", np.complex64)))
    if rng.random() < 0.5 and array.ndim:
        return rng.choice((array[:-1], array[..., None], array.T, array[:0]))
    changed = np.array(array)
    changed[(0,) * changed.ndim] = rng.choice((-5, 10**6, 1)) if changed.dtype.kind in "iu" else rng.choice((0, 1))
    return changed


def _odd_tensor(tensor: torch.Tensor, rng: random.Random) -> Any:
    if rng.random() < 0.6:
        return tensor
    makers: list[Callable[[], Any]] = [
        lambda: torch.quantize_per_tensor(tensor.float(), 0.1, 0, torch.qint8),
        lambda: torch.nested.nested_tensor([tensor.float(), tensor.float()]),
        lambda: tensor.to("meta"),
        lambda: tensor.float().to_sparse_coo(),
        lambda: torch.zeros(1).expand(2**40),
        lambda: torch.zeros(1, 1).expand(2**31, 2**20),
        lambda: tensor.to(torch.complex64),
        lambda: tensor.T[:1],
        lambda: [tensor],
        lambda: None,
    ]
    return rng.choice(makers)()


def edited_plan(corpus: Corpus, seed: int) -> None:
    """A plan with one edited field, or arrays, trained where it is accepted; compared with one device's PyG."""
    rng = random.Random(seed)
    name = rng.choice(("plan", "exact"))
    raw = mutated(corpus.documents[name], rng)
    path = corpus.folder / "edited.json"
    path.write_text(json.dumps(raw))
    plan = load_plan(path)
    graph = api.load_graph(GRAPH)
    plan.check_graph(graph)
    found = _losses(corpus, name, plan, plan.job)
    # What is stale trains as the plan did that was edited.
    wanted = train_alone(graph, plan.job).losses if name == "exact" else _losses(corpus, name, corpus.plan, plan.job)
    count = min(len(found), len(wanted))
    if not np.allclose(found[:count], wanted[:count], rtol=1e-4):
        raise SilentlyWrongError(f"{plan.fidelity}: losses {found} for {wanted}")


def _losses(corpus: Corpus, name: str, plan: Plan, job: Job) -> list[float]:
    """Of a plan with the arrays of one of the corpus, on the sequential executor."""
    graph = api.load_graph(GRAPH)
    cycle = cycle_of(plan, graph, corpus.partitions[name])
    return train_sequentially(replace(cycle, results=cycle.results | {logits_of(cycle)}), job, graph).losses

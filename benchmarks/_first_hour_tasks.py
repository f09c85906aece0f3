"""Twelve things that a newcomer wants in the first hour, with the page that says how to get each."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks._first_hour_files import (
    CLUSTER,
    DATA_PY,
    EDGES_PY,
    JOB,
    LOADER_PY,
    MINI_BATCH,
    MODULE_PY,
    NPZ_PY,
    ONE_H100,
    STATISTICS,
    SWEEP,
    TWO_JOB,
    TWO_MACHINES,
)
from benchmarks._first_hour_player import Task
from gnnplan.planner.plan import Plan
from gnnplan.planner.trace import Trace
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import MachineProfile

_TUTORIALS = "docs/tutorials"
_CHANCE = 0.25  # of the four classes that every graph here has
# The stand-in for somebody who ends a run by Ctrl-C once the first checkpoint is there.
_INTERRUPTED = (
    "gnnplan run out/plan.json -o out/run --checkpoint-every 20 & it=$!; "
    "for n in $(seq 600); do ls out/run/checkpoints/*/manifest.json 2>/dev/null && break; sleep 0.2; done; "
    "kill -INT $it; wait $it; true"
)
_TOGETHER = (
    "export MASTER_ADDR=127.0.0.1 GLOO_SOCKET_IFNAME=lo PYTHON=python; "
    "sh out/two/start_one.sh & sh out/two/start_two.sh; wait"
)


def _wanted(holds: bool, words: str) -> str:
    if not holds:
        raise UserError(f"the answer is wrong: {words}")
    return words


def _trained(folder: Path, _: str = "") -> str:
    """Seconds an epoch, predicted and measured, and an accuracy that is no chance."""
    reached = Trace.load(folder / "out" / "measured.json").accuracy["test"]
    (epoch,) = (each for each in _comparison(folder)["figures"] if each["name"] == "epoch")
    words = f"{epoch['measured']:.2g} s an epoch, {epoch['predicted']:.2g} predicted, accuracy {reached:.0%}"
    return _wanted(reached > 1.5 * _CHANCE and epoch["predicted"] > 0, words)


def _comparison(folder: Path) -> dict:
    return json.loads((folder / "out" / "comparison.json").read_text())


def _said_accuracy(_: Path, printed: str) -> str:
    words = printed.strip().splitlines()[-1]
    return _wanted(float(words.split()[-1]) > 1.5 * _CHANCE, words)


def _two_machines(folder: Path, printed: str) -> str:
    measured = Trace.load(folder / "out" / "two" / "measured.json")
    ranks = {span.worker for span in measured.spans}
    return _wanted(ranks == {0, 1} and "epoch" in printed, f"workers {sorted(ranks)} trained, one on each machine")


def _cheapest(_: Path, printed: str) -> str:
    found = {each["cluster"]: each for each in json.loads(printed)["choices"]}
    cheapest, fastest = (min(found, key=lambda name: found[name][figure]) for figure in ("dollars", "epoch_s"))
    return _wanted(len(found) == 2, f"rent {cheapest} to pay least, {fastest} to wait least")


def _resumed(folder: Path, _: str) -> str:
    epochs = len(Trace.load(folder / "out" / "run" / "measured.json").losses)
    return _wanted(epochs == Plan.load(folder / "out" / "plan.json").job.training.epochs, f"all {epochs} epochs")


def _smallest_that_fits(folder: Path, _: str) -> str:
    points = json.loads((folder / "out" / "sweep" / "sweep.json").read_text())["points"]
    fits = [each for each in points if each["fits"]]
    return _wanted(0 < len(fits) < len(points), f"{len(fits)} of {len(points)} machines have room")


def _why(_: Path, printed: str) -> str:
    path = json.loads(printed)["path"]
    total = sum(each["share"] for each in path)
    first = path[0]
    waited = first["collective"] or f"worker {first['worker']}: {', '.join(first['tasks'])}"
    return _wanted(abs(total - 1) < 1e-6, f"{first['share']:.0%} of the epoch waits for {waited}")


def _nearer(folder: Path, _: str) -> str:
    """The plan of the corrected profile is no worse predicted than the first one was, or nearly right."""
    measured = Trace.load(folder / "out" / "run" / "measured.json").median_epoch_s
    before, after = (
        abs(Plan.load(folder / "out" / name).prediction.expected_epoch_s / measured - 1)
        for name in ("plan.json", "again.json")
    )
    MachineProfile.load(folder / "out" / "calibrated.json")
    return _wanted(after <= max(before, 0.15), f"off by {before:.0%} before, by {after:.0%} after")


TASKS = (
    Task(
        "own npz",
        f"{_TUTORIALS}/own_graph.md",
        ("python save.py", "gnnplan train job.toml -o out"),
        _trained,
        {"save.py": NPZ_PY, "job.toml": 'graph = "my_graph.npz"\nmodel = "sage"\nepochs = 40\n'},
    ),
    Task("own PyG data", "README.md", ("python mine.py",), _said_accuracy, {"mine.py": DATA_PY}),
    Task(
        "edge list",
        f"{_TUTORIALS}/own_graph.md",
        ("python save.py", "gnnplan train job.toml -o out"),
        _trained,
        {
            "save.py": EDGES_PY,
            "job.toml": 'schema_version = 1\ntraining = { epochs = 40 }\n[graph]\nsource = "edge_list"\n'
            'path = "edges.txt"\nfeatures = "x.npy"\nlabels = "y.npy"\n',
        },
    ),
    Task(
        "two machines",
        f"{_TUTORIALS}/two_machines.md",
        (
            "gnnplan profile --quick -o out/here.json",
            "gnnplan plan two_job.toml two_machines.toml -o out/two_plan.json",
            "gnnplan run out/two_plan.json -o out/two --prepare",
            _TOGETHER,
            "gnnplan simulate out/two_plan.json -o out/p.json && gnnplan compare out/p.json out/two/measured.json",
        ),
        _two_machines,
        {"two_job.toml": TWO_JOB, "two_machines.toml": TWO_MACHINES},
    ),
    Task(
        "rent or buy",
        "README.md",
        ("gnnplan plan job.toml cluster.toml one_h100.toml -o out --json",),
        _cheapest,
        {"job.toml": JOB, "cluster.toml": CLUSTER, "one_h100.toml": ONE_H100},
        is_quick=True,
    ),
    Task(
        "mini-batches",
        f"{_TUTORIALS}/mini_batches.md",
        ("gnnplan train mini_batch.toml -o out",),
        _trained,
        {"mini_batch.toml": MINI_BATCH},
    ),
    Task(
        "loader swap",
        f"{_TUTORIALS}/mini_batches.md",
        ("python loop.py",),
        _said_accuracy,
        {"loop.py": LOADER_PY},
        is_quick=True,
    ),
    Task(
        "resume",
        "docs/checkpoints.md",
        ("gnnplan plan job.toml -o out/plan.json", _INTERRUPTED, "gnnplan run out/plan.json -o out/run --resume"),
        _resumed,
        {"job.toml": 'graph = "sbm"\nmodel = "gcn"\nepochs = 600\n'},
    ),
    Task("own model", f"{_TUTORIALS}/own_model.md", ("python mine.py",), _said_accuracy, {"mine.py": MODULE_PY}),
    Task(
        "what if, from statistics",
        "docs/what_if.md",
        ("gnnplan whatif job.toml sweep.toml -o out/sweep",),
        _smallest_that_fits,
        {
            "job.toml": 'graph = "statistics.toml"\nmodel = "sage"\nepochs = 100\n',
            "statistics.toml": STATISTICS,
            "sweep.toml": SWEEP,
        },
        is_quick=True,
    ),
    Task(
        "explain why",
        "docs/explain.md",
        ("gnnplan plan job.toml cluster.toml -o out/plan.json", "gnnplan explain out/plan.json --json"),
        _why,
        {"job.toml": JOB, "cluster.toml": CLUSTER},
        is_quick=True,
    ),
    Task(
        "calibrate",
        "README.md",
        (
            "gnnplan profile --quick -o out/here.json",
            "gnnplan plan job.toml out/here.json -o out/plan.json",
            "gnnplan run out/plan.json -o out/run",
            "gnnplan calibrate out/run -o out/calibrated.json",
            "gnnplan plan job.toml out/calibrated.json -o out/again.json",
        ),
        _nearer,
        {"job.toml": JOB},
    ),
)

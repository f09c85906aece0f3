"""MorphGL's table 4 from statistics: seconds of an epoch of sampled mini-batches on one GPU.

SALIENT has the CPU make all batches, DUCATI the GPU, and MorphGL both. Stages come from expected sizes of batches, from
the catalog, and from rates of a core that were fitted on another machine (`HostRates`), none of it on the table. Caches
on the GPU and the host's own memory rate are left out.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

from benchmarks._paper_rows import TABLES
from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.cluster import Placement, WorkerPlace
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.planner.minibatch.simulate import simulate
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.machine import Machine
from gnnplan.planner.statistics.price_batches import HostRates, PricedBatches, price_batches
from gnnplan.planner.statistics.stand_in import Structures
from gnnplan.profiles.catalog import published_profile
from gnnplan.profiles.catalog.devices import Device, device_file
from gnnplan.profiles.machine import Link

_PCIE_3_X16, _HALF = 15.75e9, 0.5
_DEVICES = {"A": ("a30", 1.0), "B": ("rtx-3090", 1.0), "C": ("a30", _HALF)}  # C is half an A30
_WIDTHS = {"GCN": 16, "GraphSAGE": 256, "GAT": 64}  # section 5.1
_TRAINED = {"PA": 0.0109, "TW": 0.01, "UK": 0.01}
_CLASSES, _SLOTS = {"PA": 172, "TW": 47, "UK": 47}, 10


def batch_rows(structures: Structures, limit: int | None) -> Iterator[dict]:
    """Every row of the table, printed and predicted."""
    found: dict[tuple[str, str, str], PricedBatches] = {}
    for row in _read("morphgl_table4_epoch_time")[:limit]:
        key = row["model"], row["dataset"], row["machine"]
        if key not in found:
            found[key] = _priced(*key, structures)
        priced, cores = found[key], _cores(row["machine"])
        yield {
            "row": " ".join((*key, row["system"])),
            "printed_s": float(row["epoch_s"]),
            "predicted_s": _epoch_s(priced, row["system"], cores),
            "fits": priced.headroom >= 0,
            "headroom": priced.headroom,
            "printed_mb": None,
            "predicted_mb": priced.peak_bytes / 1e6,
            "communication_share": priced.times.dma_s * priced.num_batches / priced.epoch_s,
        }


def _epoch_s(priced: PricedBatches, system: str, cores: int) -> float:
    if system == "MorphGL":
        return priced.epoch_s
    buffers = Buffers(_SLOTS, _SLOTS, 0) if system == "SALIENT" else Buffers(0, 1)
    return simulate(priced.times, buffers, priced.num_batches, cores).epoch_s


def _priced(model: str, dataset: str, machine: str, structures: Structures) -> PricedBatches:
    kind = {"GraphSAGE": "sage"}.get(model, model.lower())
    spec = ModelSpec(kind=kind, num_layers=3, hidden_channels=_WIDTHS[model])  # type: ignore[arg-type]
    batches = MiniBatchSpec(fan_outs=(15, 10, 5), batch_size=1024)
    job = Job(graph=SbmGraph(source="sbm"), model=spec, mini_batch=batches)
    return price_batches(job, _machine(machine), _graph(dataset), structures, HostRates(), _cores(machine))


def _graph(label: str) -> Statistics:
    row = next(each for each in _read("morphgl_table3_datasets") if each["dataset"] == label)
    return Statistics(
        name=label,
        num_nodes=int(row["num_nodes"]),
        num_edges=int(row["num_edges"]),
        num_features=int(row["num_features"]),
        num_classes=_CLASSES[label],
        train_fraction=_TRAINED[label],
        feature_item_bytes=2,  # section 5.1
    )


def _machine(name: str) -> Machine:
    device, share = _DEVICES[name]
    profile = published_profile(name, _scaled(device_file().device[device], share))
    link = Link(bytes_per_s=1.25e9, latency_s=0.0)
    worker = WorkerPlace(
        host="host", host_index=0, device_index=0, profile=name, link=link, memory_bytes=profile.memory_bytes
    )
    return Machine(Placement(workers=(worker,), profiles={name: profile}, device_link=link), (1,), ())


def _scaled(device: Device, share: float) -> Device:
    figures = {
        name: figure.model_copy(update={"value": figure.value * share})
        for name in ("memory_bytes", "fp32_flops", "memory_bytes_per_s")
        for figure in [getattr(device, name)]
    }
    slot = device.pcie_bytes_per_s.model_copy(update={"value": _PCIE_3_X16})
    return device.model_copy(update={**figures, "pcie_bytes_per_s": slot})


def _cores(machine: str) -> int:
    return next(int(each["cpu_cores"]) for each in _read("morphgl_machines") if each["machine"] == machine)


def _read(name: str) -> list[dict[str, str]]:
    with (TABLES / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))

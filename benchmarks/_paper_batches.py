"""Sampled mini-batches from statistics: MorphGL's table 4, on one GPU, and DistDGL in NeutronTP's table 2, on 16.

In MorphGL's table SALIENT has the CPU make all batches, DUCATI the GPU, and MorphGL both. Stages come from expected
sizes of batches, from the catalog, and from rates of a core that were fitted on another machine (`HostRates`), none of
it on the table. Caches on the GPU and the host's own memory rate are left out.

DistDGL's workers do one thing after another, for its printed total is computing plus communicating. A batch is made on
the host's cores, the rows of other hosts' vertices come over the network, then the GPU copies and trains it. Of rows
15 in 16 are other hosts', as of a random partition. What is left out: requests for neighbours, and their answers.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks._paper_rows import (
    T4_NETWORK_BYTES_PER_S,
    neutrontp_graph,
    neutrontp_width,
    read_table,
    row_name,
    t4_hosts,
)
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
_DISTDGL_BATCH = MiniBatchSpec(fan_outs=(10, 25), batch_size=1000)  # section 5.1; the size is DGL's example's
_DISTDGL_TRAINED = {"RDT": 0.66, "OPT": 0.08, "OPR": 0.011, "FS": 0.65}  # section 5; of the first two the usual
_DISTDGL_CORES = 16  # neutrontp_cluster.csv
_CLASSES, _SLOTS = {"PA": 172, "TW": 47, "UK": 47}, 10


def batch_rows(structures: Structures, limit: int | None) -> Iterator[dict]:
    """Every row of the table, printed and predicted."""
    found: dict[tuple[str, str, str], PricedBatches] = {}
    for row in read_table("morphgl_table4_epoch_time")[:limit]:
        key = row["model"], row["dataset"], row["machine"]
        if key not in found:
            found[key] = _priced(*key, structures)
        priced, cores = found[key], _cores(row["machine"])
        predicted_s = _epoch_s(priced, row["system"], cores)
        copied_s = priced.times.dma_s * priced.num_batches
        yield _row(" ".join((*key, row["system"])), float(row["epoch_s"]), predicted_s, copied_s, priced)


def distdgl_rows(structures: Structures, limit: int | None) -> Iterator[dict]:
    """DistDGL's rows of NeutronTP's table 2, printed and predicted."""
    rows = [row for row in read_table("neutrontp_table2_systems") if row["system"] == "DistDGL"]
    for row in rows[:limit]:
        priced = _distdgl(row["model"].lower(), row["dataset"], structures)
        times, workers = priced.times, t4_hosts().num_workers
        row_bytes = neutrontp_graph(row["dataset"]).num_features * 4
        remote_s = priced.sizes.rows[-1] * (1 - 1 / workers) * row_bytes / T4_NETWORK_BYTES_PER_S
        batch_s = times.cpu_batching_s + remote_s + times.dma_s + times.model_s
        count = priced.num_batches
        yield _row(row_name(row, "system"), float(row["total_s"]), count * batch_s, count * remote_s, priced)


def _distdgl(kind: str, dataset: str, structures: Structures) -> PricedBatches:
    model = ModelSpec(kind=kind, num_layers=2, hidden_channels=neutrontp_width(dataset), heads=1)  # type: ignore[arg-type]
    job = Job(graph=SbmGraph(source="sbm"), model=model, mini_batch=_DISTDGL_BATCH)
    graph = neutrontp_graph(dataset).model_copy(update={"train_fraction": _DISTDGL_TRAINED[dataset]})
    return price_batches(job, t4_hosts(), graph, structures, HostRates(), _DISTDGL_CORES, is_trimmed=True)


def _row(name: str, printed_s: float, predicted_s: float, moved_s: float, priced: PricedBatches) -> dict:
    return {
        "row": name,
        "printed_s": printed_s,
        "predicted_s": predicted_s,
        "fits": priced.headroom >= 0,
        "headroom": priced.headroom,
        "printed_mb": None,
        "predicted_mb": priced.peak_bytes / 1e6,
        "communication_share": moved_s / predicted_s,
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
    return price_batches(
        job, _machine(machine), _graph(dataset), structures, HostRates(), _cores(machine), is_trimmed=True
    )


def _graph(label: str) -> Statistics:
    row = next(each for each in read_table("morphgl_table3_datasets") if each["dataset"] == label)
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
    return next(int(each["cpu_cores"]) for each in read_table("morphgl_machines") if each["machine"] == machine)

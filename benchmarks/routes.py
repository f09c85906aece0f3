"""One epoch of mini-batches over every route: the planner's choice, CPU only, GPU only, PyG's loader, and a grid.

On CUDA the graph has 4 million vertices and 100 million edges, made on the spot and kept in host memory; batches
of the GPU are read over UVA, without and with a cache of a tenth of the features' bytes, as if the device had no
room for more. Where it has, an epoch with everything resident is timed too, beside its own prediction; it counts in
neither regret nor gain. The planner's seconds include planning; `prediction_error` is of what they are without it.
Without CUDA a small graph stands in and the "GPU's" batches are made by the CPU in the GPU's turn. The stages are
profiled once a model, before any epoch that is timed.
They are profiled, and the cache is presampled, on batches of another epoch than those timed, which have another order
and other draws; what the cache saves is counted on such. To see how the number of cores matters, run it under
`taskset`: every device and number of cores has a result of its own. A model's row is written there as soon as it is
known, with its date, and not taken again under the same settings: a run may be cut short and go on later.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch_geometric.typing as pyg_typing
from rich.console import Console
from rich.table import Table
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader as PygNeighborLoader

from benchmarks._common import fingerprint_of, median_and_spread
from benchmarks._mini_batch import MODELS, ON_CPU, ON_CUDA, QUICK, Setting, data_of, seeds_of, stages_of
from benchmarks._results import about, keep, kept_parts, record_of
from gnnplan.planner.minibatch.dispatch import Dispatch, dispatch
from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.profiles.profiler import num_usable_cores
from gnnplan.runtime.mini_batch.executor import Epoch, run_epoch
from gnnplan.runtime.mini_batch.loader_stages import LoaderStages
from gnnplan.runtime.mini_batch.profile import StageProfile, profile_stages
from gnnplan.runtime.sampling.loader import NeighborLoader
from gnnplan.runtime.sampling.presample import presample
from gnnplan.runtime.sampling.source import Source

_OF_A_ROW = "planning apart"  # what its figures mean: rows that were kept with others are taken again
_CACHE_SHARE = 0.1  # of the features' bytes
_FIRST_TIMED_EPOCH = 1  # epoch 0 is profiled and presampled
_JUDGED_BATCHES = 20  # that the cache's savings are counted on
_RESIDENT_SHARE = 0.5  # of the device's free memory; the rest is for batches of all the other routes


def main(quick: bool) -> dict:
    """The models that are missing, over every route; the quick form keeps nothing."""
    has_cuda = torch.cuda.is_available()
    setting = QUICK if quick else ON_CUDA if has_cuda else ON_CPU
    device = torch.cuda.get_device_name() if has_cuda else "cpu"
    file = file_of(device, num_usable_cores())
    settings = {kind: fingerprint_of([kind, vars(setting), _OF_A_ROW]) for kind in (["sage"] if quick else MODELS)}
    rows = {} if quick else kept_parts(file, "rows", "model", settings)
    summary = {
        "device": device if has_cuda else "none: the CPU made the GPU's batches",
        "cores": num_usable_cores(),
        "num_vertices": setting.graph.num_nodes,
        "fan_outs": setting.fan_outs,
        "batches_an_epoch": setting.num_batches,
        "repeats": setting.repeats,
    }
    if missing := [kind for kind in settings if kind not in rows]:
        runs = _runs(setting, torch.device("cuda" if has_cuda else "cpu"))
        for kind in missing:
            rows[kind] = {"model": kind, "settings": settings[kind], **about(), **runs.of(kind)}
            if not quick:
                keep(file, record_of("routes", summary | _over(list(rows.values()))))
    ordered = [rows[kind] for kind in settings]
    _show(ordered)
    return {"file": file, **summary, **_over(ordered)}


def _over(rows: Sequence[dict]) -> dict:
    return {
        "worst_regret": max(row["regret"] for row in rows),
        "worst_prediction_error": max(abs(row["prediction_error"]) for row in rows),
        "gain_over_better_extreme": math.exp(float(np.mean([math.log(row["gain_over_extremes"]) for row in rows]))),
        "rows": list(rows),
    }


def file_of(device: str, num_cores: int) -> str:
    """The name of a result's file, without its end."""
    return f"routes_{re.sub('[^a-z0-9]+', '-', device.lower()).strip('-')}_{num_cores}_cores"


def _runs(setting: Setting, device: torch.device) -> _Runs:
    torch.set_num_threads(1)
    return _Runs(data_of(setting), setting, device, max(1, num_usable_cores() - 1))


class _Runs:
    """The loader, the GPU's sources and what is common to all models."""

    def __init__(self, data: Data, setting: Setting, device: torch.device, num_threads: int) -> None:
        self.setting, self.device, self.num_threads = setting, device, num_threads
        self.seeds = seeds_of(setting)
        self.data = data
        self.loader = NeighborLoader(
            data,
            setting.fan_outs,
            self.seeds,
            batch_size=setting.batch_size,
            shuffle=True,
            num_workers=num_threads,
            pin_memory=device.type == "cuda",
        )
        self.sources: dict[str, Source | None] = {"GPU only": None}
        self.cache: dict[str, float] | None = None
        self.resident: Source | None = None
        if device.type == "cuda":
            self._make_sources()

    def _make_sources(self) -> None:
        from gnnplan.runtime.sampling.device import (  # needs Triton
            DeviceSource,
            cached_source,
            resident_bytes,
            sizes_of,
        )

        kept = cached_source(self.loader, self.device, int(_CACHE_SHARE * self.data.x.nbytes))
        assert kept.cache is not None
        unseen = presample(self.loader, _JUDGED_BATCHES, epoch=_FIRST_TIMED_EPOCH)
        self.cache = {
            "saved": kept.cache.saved_share(unseen, sizes_of(self.loader)),
            "saved_of_presampled": kept.cache.saved_bytes / kept.cache.read_bytes,
            "gap": kept.cache.gap,
        }
        self.sources["GPU only"] = DeviceSource(self.loader.graph, self.device)
        self.sources["GPU only, cache"] = kept.source
        whole_bytes = resident_bytes(self.loader)
        if whole_bytes is not None and whole_bytes < _RESIDENT_SHARE * torch.cuda.mem_get_info(self.device)[0]:
            self.resident = DeviceSource(self.loader.graph, self.device, resident=True)

    def of(self, kind: str) -> dict:
        """One model's row."""
        source = list(self.sources.values())[-1]
        stages = self._stages(kind, source)
        profile = self._profile(stages)
        plan = self._plan(profile)
        planning_s: list[float] = []

        def planned(epoch: int) -> Epoch:
            begun_s = time.perf_counter()
            buffers = self._plan(profile).buffers or Buffers(0, 1)
            planning_s.append(time.perf_counter() - begun_s)
            return self._epoch(stages, buffers, epoch)

        timed: dict[str, Callable[[int], Epoch | None]] = {
            "planner": planned,
            "CPU only": lambda epoch: self._epoch(stages, Buffers(10, 10, 0), epoch),
        }
        for name, made_by in self.sources.items():
            extreme = stages if made_by is source else self._stages(kind, made_by)
            timed[name] = lambda epoch, extreme=extreme: self._epoch(extreme, Buffers(0, 1), epoch)
        for buffers in _grid(self.setting.num_batches):
            name = f"grid {buffers.cpu_slots}/{buffers.gpu_slots}/{buffers.num_gpu_batches}"
            timed[name] = lambda epoch, buffers=buffers: self._epoch(stages, buffers, epoch)
        predicted_resident_s = None
        if self.resident is not None:
            resident = self._stages(kind, self.resident)
            times = self._profile(resident).times
            predicted_resident_s = self.setting.num_batches * (times.gpu_batching_s + times.gpu_only_model_s)
            timed["resident"] = lambda epoch: self._epoch(resident, Buffers(0, 1), epoch)
        if pyg_typing.WITH_PYG_LIB or pyg_typing.WITH_TORCH_SPARSE:
            timed["PyG"] = self._pyg_epoch(stages)
        seconds, epochs = self._in_turns(timed)
        return self._row(plan, seconds, epochs, float(np.median(planning_s[1:]))) | {
            "route": plan.route,
            "gap_to_bound": plan.gap,
            "times_s": profile.times.model_dump(exclude_none=True),
            "variation": profile.variation,
            "predicted_resident_s": predicted_resident_s,
            "cache": self.cache,
        }

    def _stages(self, kind: str, source: Source | None) -> LoaderStages:
        return stages_of(kind, self.setting, self.loader, self.device, source)

    def _profile(self, stages: LoaderStages) -> StageProfile:
        with stages.undone():
            return profile_stages(stages, 20, num_distinct=self.setting.num_batches, num_cpu_threads=self.num_threads)

    def _plan(self, profile: StageProfile) -> Dispatch:
        return dispatch(profile.times, self.setting.num_batches, num_cpu_threads=self.num_threads)

    def _epoch(self, stages: LoaderStages, buffers: Buffers, epoch: int) -> Epoch:
        return run_epoch(stages, buffers, self.setting.num_batches, epoch, num_cpu_threads=self.num_threads)

    def _pyg_epoch(self, stages: LoaderStages) -> Callable[[int], None]:
        loader = PygNeighborLoader(
            self.data,
            num_neighbors=self.setting.fan_outs,
            input_nodes=self.seeds,
            batch_size=self.setting.batch_size,
            shuffle=True,
            num_workers=self.num_threads,
            persistent_workers=True,
            pin_memory=self.device.type == "cuda",
        )

        def run(_epoch: int) -> None:
            for batch in loader:
                stages.train(stages.transfer(batch))

        return run

    def _in_turns(
        self, timed: dict[str, Callable[[int], Epoch | None]]
    ) -> tuple[dict[str, list[float]], dict[str, Epoch | None]]:
        """Seconds of `repeats` epochs of each, the same ones, taken in turns after one round that is not timed."""
        seconds: dict[str, list[float]] = {name: [] for name in timed}
        last: dict[str, Epoch | None] = {}
        for number in range(self.setting.repeats + 1):
            for name, run in timed.items():
                start_s = time.perf_counter()
                last[name] = run(_FIRST_TIMED_EPOCH + number)
                if number:
                    seconds[name].append(time.perf_counter() - start_s)
        return seconds, last

    def _row(
        self, plan: Dispatch, seconds: dict[str, list[float]], epochs: dict[str, Epoch | None], planning_s: float
    ) -> dict:
        medians = {name: median_and_spread(values)[0] for name, values in seconds.items()}
        ours = medians["planner"]
        extremes = [medians[name] for name in ("CPU only", *self.sources)]
        grid = [value for name, value in medians.items() if name.startswith("grid")]
        routes = ((name, epoch) for name, epoch in epochs.items() if epoch and not name.startswith("grid"))
        return {
            "num_edges": self.data.num_edges,
            "seconds": {name: median_and_spread(values) for name, values in seconds.items()},
            "regret": ours / min(ours, *extremes, *grid) - 1,
            "gain_over_extremes": min(extremes) / ours,
            "gain_that_the_bound_allows": min(extremes) / plan.bound.seconds,
            "planning_s": planning_s,
            "prediction_error": plan.epoch_s / (ours - planning_s) - 1,
            "busy": {name: _busy_shares(epoch, self.num_threads) for name, epoch in routes},
        }


def _grid(num_batches: int) -> list[Buffers]:
    """Shares of the GPU's batches, and sizes of both buffers."""
    shares = [round(num_batches * part) for part in (0.2, 0.4, 0.6, 0.8)]
    return [Buffers(cpu, gpu, share) for cpu in (2, 10) for gpu in (2, 10) for share in shares]


def _busy_shares(epoch: Epoch, num_threads: int) -> dict[str, float]:
    """Of the epoch, how long CPU threads, PCIe and GPU were at work (MorphGL, table 5).

    A batch that the GPU makes counts as PCIe's work from begin to end, though it draws neighbours meanwhile too.
    """
    end_s = max(span.end_s for span in epoch.spans)

    def share(stages: tuple[str, ...], lanes: int) -> float:
        return sum(span.end_s - span.start_s for span in epoch.spans if span.stage in stages) / end_s / lanes

    return {
        "cpu": share(("cpu_batch",), num_threads),
        "pcie": share(("transfer", "gpu_batch"), 1),
        "gpu": share(("gpu_batch", "train"), 1),
    }


def _show(rows: list[dict]) -> None:
    table = Table(title="one epoch, median seconds ± interquartile range")
    names = [name for name in rows[0]["seconds"] if not name.startswith("grid")]
    for column in ("model", "route", *names, "best of grid", "regret", "gain"):
        table.add_column(column, justify="right")
    for row in rows:
        seconds = row["seconds"]
        best = min(median for name, (median, _) in seconds.items() if name.startswith("grid"))
        table.add_row(
            row["model"],
            row["route"],
            *(f"{seconds[name][0]:.2f} ± {seconds[name][1]:.2f}" for name in names),
            f"{best:.2f}",
            f"{row['regret']:.1%}",
            f"{row['gain_over_extremes']:.2f}x",
        )
    Console().print(table)

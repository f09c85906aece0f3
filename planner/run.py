"""Executes a plan: cuts the shards, starts the workers through torchrun, returns the measured trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gnnplan.planner.checkpoints import FOLDER, MANIFEST_FILE, CheckpointOptions, checkpoints_in, clear_unfinished
from gnnplan.planner.graph import Graph
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.models.first_weights import first_weights
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import Partition, load_partition, save_plan
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.difference import difference
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.program.whole import runs_module
from gnnplan.planner.program_shard import FIRST_WEIGHTS, cut_program_shard
from gnnplan.planner.run_files import MEASURED_FILE, PLAN_FILE
from gnnplan.planner.search.decide import setting_of
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.sound_plan import EDITED, load_plan
from gnnplan.planner.start_scripts import write_start_scripts
from gnnplan.planner.techniques.registry import technique
from gnnplan.planner.trace import Trace
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.errors import NotFiniteError, RunFailedError, StoppedError, UserError
from gnnplan.profiles.folder import holding, make_inside
from gnnplan.profiles.launch import Event, hosts_here, launch

_SAYING_S = 12.0  # after a timeout: at one of 10 s peers have said only after 20 that they had waited for a worker
IN_MEMORY = (
    "the module has layers that run their own code, and workers cannot import a module that a program holds in memory; "
    'write it into a file and name it: model = "FILE.py:FUNCTION"'
)


def check_importable(module: Any) -> None:
    """`UserError` where workers would need the code of a module that a program holds in memory."""
    from gnnplan.planner.models.own_layers import runs_code_for_sure

    if runs_code_for_sure(module):
        raise UserError(IN_MEMORY)


def run_plan(
    plan_path: Path,
    folder: Path,
    *,
    graph: Graph | None = None,
    module: Any = None,
    timeout_s: float = 300.0,
    num_evaluations: int = 0,
    checkpoints: CheckpointOptions | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Trace:
    """Runs a plan on this machine, or on the emulated cluster around it, and returns what was measured.

    Args:
        plan_path: the plan file; its partition lies beside it.
        folder: receives `shards/`, `measured.json`, `model.pt` (PyG state_dict) and `workers.log`. A `model.pt` of an
            earlier run stays until this one has ended well.
        graph: where it is loaded already; else the job's source is loaded again.
        module: the `torch.nn.Module` of a plan whose model is one in memory; it is left as it is.
        timeout_s: longest wait in one collective before the run fails.
        num_evaluations: how often accuracies are told on the way, in epochs spread over the run; that time is in no
            epoch's. Where workers may go on without each other they are told at the end alone.
        checkpoints: how often they are written, and whether the run goes on from one (None: as `CheckpointOptions`
            has it). They lie in `folder/checkpoints/`.
        on_event: called with `{"event": "epoch", "epoch", "epochs", "loss", "epoch_s", "accuracy"}` a few times a
            second, and after the last epoch. `epoch_s` is the mean of the epochs since the event before, and
            `accuracy` the last one known, by `train`, `val` and `test`. After an epoch whose tasks were measured it has
            `tasks`, too: seconds of the first worker's longest ones. Also with `{"event": "checkpoint", "epoch",
            "seconds", "fault"}` when one was written, or was not for the reason in `fault`, and with
            `{"event": "note", "words"}` for what is to be read.

    Raises:
        UserError: the plan does not belong to this graph or cannot run here, or another run holds the folder.
        RunFailedError: a worker failed; the message names it and the cause.
        StoppedError: SIGTERM or SIGINT ended it; the message says which epoch is kept.
    """
    plan = load_plan(plan_path, module)
    _check_devices(plan)
    hosts = hosts_here(plan.placement.workers_by_host, plan.placement.threads_by_host)
    given = graph_and_partition(plan, plan_path, graph)
    arguments = [str(folder / PLAN_FILE), str(folder), f"--timeout-s={timeout_s}", f"--evaluations={num_evaluations}"]
    arguments += (checkpoints or CheckpointOptions()).arguments()
    with holding(folder):
        _fill(folder, plan, *given)
        before = {} if checkpoints and checkpoints.resume else _manifests(folder)
        try:
            silence_s = timeout_s + _SAYING_S
            launch("gnnplan.runtime", arguments, hosts=hosts, folder=folder, on_event=on_event, silence_s=silence_s)
        except StoppedError as stopped:
            if not (folder / MEASURED_FILE).exists():  # else it came when all was done
                words = _kept_words(folder, plan, before) or " before there was a checkpoint"
                raise StoppedError(f"{stopped}{words}", stopped.number) from None
        except RunFailedError as failed:
            words = _kept_words(folder, plan, before, goes_on=not isinstance(failed, NotFiniteError))
            failed.args = (f"{failed}{words}",)
            raise
        finally:
            clear_unfinished(folder)
        return Trace.load(folder / MEASURED_FILE)


def _manifests(folder: Path) -> dict[Path, int]:
    """Of each whole checkpoint, when it was written."""
    return {found.folder: (found.folder / MANIFEST_FILE).stat().st_mtime_ns for found in checkpoints_in(folder)[0]}


def _kept_words(folder: Path, plan: Plan, before: Mapping[Path, int], *, goes_on: bool = True) -> str:
    """What of a run that was ended is there; nothing where nothing is.

    Args:
        before: checkpoints of another run, which are none of this one's.
        goes_on: the same run, if it is begun again, would not come to the same end.
    """
    now = _manifests(folder)
    whole = [found for found in checkpoints_in(folder)[0] if before.get(found.folder) != now.get(found.folder)]
    if not whole:
        return ""
    epoch = f"{whole[0].epoch} of {plan.job.training.epochs} epochs are kept in {folder / FOLDER}"
    return f"; {epoch}" + (": the same command with --resume goes on from there" if goes_on else "")


def prepare_run(plan_path: Path, folder: Path, *, graph: Graph | None = None, module: Any = None) -> dict[str, Path]:
    """Writes what the plan's hosts need to run it, wherever they are; returns each one's script, by its name.

    Args:
        plan_path, graph, module: as in `run_plan`.
        folder: receives `shards/`, the plan with its partition, and `start_HOST.sh` for every host.

    Raises:
        UserError: the plan does not belong to this graph.
    """
    plan = load_plan(plan_path, module)
    given = graph_and_partition(plan, plan_path, graph)
    with holding(folder):
        _fill(folder, plan, *given)
        return write_start_scripts(plan, folder)


def graph_and_partition(plan: Plan, plan_path: Path, graph: Graph | None) -> tuple[Graph | None, Partition]:
    """The graph and the arrays that a plan was made with; no graph of mini-batches, for their workers load it.

    Args:
        graph: where it is loaded already.
    """
    partition = load_partition(plan, plan_path)
    if plan.mini_batch is not None:
        if graph is not None:
            raise UserError(
                f"{plan.job.name}: workers of mini-batches load the job's graph themselves; leave graph out"
            )
        return None, partition
    graph = graph or load_graph(plan.job.graph)
    plan.check_graph(graph)
    return graph, partition


def _fill(folder: Path, plan: Plan, graph: Graph | None, partition: Partition) -> None:
    (folder / MEASURED_FILE).unlink(missing_ok=True)  # an earlier model stays until there is a newer one
    if graph is not None:
        write_shards(plan, graph, partition, make_inside(folder, "shards"))
    save_plan(plan, partition, folder / PLAN_FILE)  # as they were checked, so that the folder can be run again


def write_shards(plan: Plan, graph: Graph, partition: Partition, folder: Path) -> None:
    """Cuts and writes every worker's share as `worker_{rank}.npz`, and what training begins with beside them.

    Raises `UserError` where the plan's program is not what its choices make on this graph.
    """
    cycle = cycle_of(plan, graph, partition)
    if plan.job.model.held is not None and runs_module(cycle):
        raise UserError(IN_MEMORY)
    for rank in range(plan.num_workers):
        shard = replace(cut_program_shard(cycle, graph, rank), cut_for=plan.fingerprint())
        shard.save(folder / f"worker_{rank}.npz")
    _write_weights(plan, folder / FIRST_WEIGHTS)


def _write_weights(plan: Plan, path: Path) -> None:
    """What training begins with, so that workers need nothing of the model's code."""
    import torch

    weights = first_weights(plan.job, plan.graph.num_features, plan.graph.num_classes)
    with replacing(path) as temporary:
        torch.save(weights, temporary)


def cycle_of(plan: Plan, graph: Graph, partition: Partition) -> Cycle:
    """The programs of a plan of choices, with arrays.

    Raises `UserError` where the choices' arrays are not sound, or they make another program than the plan has.
    """
    setting = setting_of(plan.job, plan.placement, graph)
    choices = [chosen.choice(partition.chosen) for chosen in plan.choices]
    for choice in choices:
        if fault := technique(choice.technique).fault(choice, setting):
            raise UserError(f"the plan's choices: {choice.technique}: {fault}; make the plan again")
    made = compose_candidate(setting, choices)
    if fault := difference(plan.cycle, CycleDocument.of(made.cycle), "cycle"):
        raise UserError(f"the plan's program is not what its decisions make on this graph, {fault}: {EDITED}")
    for choice in choices:
        if fault := technique(choice.technique).fault_in(choice, made):
            raise UserError(f"the plan's choices: {choice.technique}: {fault}: {EDITED}")
    return made.cycle


def _check_devices(plan: Plan) -> None:
    kinds = {profile.device_kind for profile in plan.placement.profiles.values()}
    if "cuda" in kinds:
        import torch

        found = torch.cuda.device_count()
        if found < plan.num_workers:
            raise UserError(
                f"the plan needs {plan.num_workers} CUDA devices, this machine has {found}; plan with a profile "
                f"of this machine (gnnplan profile -o here.json)"
            )

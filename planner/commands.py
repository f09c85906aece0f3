"""The verbs of the command line: each reads contracts, calls one function of the API, shows the result."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from gnnplan.planner import api
from gnnplan.planner.calibrate import load_run
from gnnplan.planner.calibration.files import calibrated_files
from gnnplan.planner.cluster import CLUSTER_FILE, Cluster, profile_file
from gnnplan.planner.demo import run_demo
from gnnplan.planner.emulation import emulate as emulation
from gnnplan.planner.emulation.weather import Weather
from gnnplan.planner.explain_commands import diff as diff
from gnnplan.planner.explain_commands import explain as explain
from gnnplan.planner.given import output_folder
from gnnplan.planner.here import read_cluster, this_machine
from gnnplan.planner.ignored_options import refuse_ignored
from gnnplan.planner.infer_commands import infer as infer
from gnnplan.planner.job import Job
from gnnplan.planner.objective.arguments import with_objective
from gnnplan.planner.perfetto import write_perfetto
from gnnplan.planner.pilot_commands import pilot as pilot
from gnnplan.planner.pilot_commands import plan_by_pilots
from gnnplan.planner.plan import Plan
from gnnplan.planner.report.choices import choice_facts, choices_table
from gnnplan.planner.report.output import print_result, print_wrote
from gnnplan.planner.report.picture import write_picture
from gnnplan.planner.report.program import program_graph, program_tables
from gnnplan.planner.report.progress import bar, epochs_bar, steps
from gnnplan.planner.report.tables import (
    calibration_table,
    comparison_table,
    fluctuation_note,
    plan_table,
    profile_table,
    trace_table,
)
from gnnplan.planner.report_commands import report as report
from gnnplan.planner.run_files import MEASURED_FILE, MODEL_FILE, PLAN_FILE
from gnnplan.planner.sound_plan import load_plan
from gnnplan.planner.trace import Trace
from gnnplan.planner.what_if_commands import statistics as statistics
from gnnplan.planner.what_if_commands import whatif as whatif
from gnnplan.profiles.catalog import catalog_names, catalog_profile
from gnnplan.profiles.contract import Document, check_writable, replacing
from gnnplan.profiles.errors import NoPlanFitsError, UserError
from gnnplan.profiles.launch import Event
from gnnplan.profiles.steal import TOLERATED_SHARE

_notes = Console(stderr=True)
_OF_THIS_MACHINE = "it is about this machine's profile, and a cluster is named"


def profile(arguments: argparse.Namespace) -> None:
    """`gnnplan profile`."""
    if arguments.list:
        refuse_ignored(arguments, "--list measures nothing", "output", "workers", "quick", "cluster")
        names = catalog_names()
        rows = "\n".join(f"{name:16} {catalog_profile(name).device_name}" for name in names)
        print_result(arguments, {"catalog": names}, rows)
        return
    if arguments.cluster:
        refuse_ignored(arguments, "the cluster says how many workers its hosts have", "workers")
        _profile_cluster(arguments)
        return
    output = arguments.output or Path("out/profile.json")
    check_writable(output)
    with bar(_notes, "measuring", "points") as on_progress:
        measured = api.profile_machine(num_workers=arguments.workers, quick=arguments.quick, on_progress=on_progress)
    measured.save(output)
    print_result(arguments, {"profile": str(output), **_facts(measured)}, profile_table(measured))
    print_wrote(arguments, output)


def _profile_cluster(arguments: argparse.Namespace) -> None:
    cluster, folder = Cluster.load(arguments.cluster), arguments.output or Path("out") / arguments.cluster.stem
    with bar(_notes, "measuring every host", "points") as on_progress:
        measured = api.profile_cluster(cluster, folder, quick=arguments.quick, on_progress=on_progress)
    files = [*(folder / profile_file(name) for name in measured), folder / CLUSTER_FILE]
    print_result(arguments, {"files": [str(path) for path in files]}, Group(*map(profile_table, measured.values())))
    print_wrote(arguments, *files)


def train(arguments: argparse.Namespace) -> None:
    """`gnnplan train`."""
    job = with_objective(Job.load(arguments.job), arguments)
    folder = arguments.output or output_folder(job, arguments.job)
    check_writable(folder / PLAN_FILE)
    how = _checkpoints(arguments)
    cluster = _where(job, arguments.cluster, arguments)
    with ExitStack() as planning, ExitStack() as training:
        on_step = planning.enter_context(steps(_notes, "loading the graph"))
        handlers: list[Callable[[Event], None]] = []

        def on_plan(made: Plan) -> None:
            planning.close()
            _say(arguments)(plan_table(made))
            bar_of_epochs = epochs_bar(_notes, made.prediction.expected_epoch_s)
            handlers.append(training.enter_context(bar_of_epochs))

        trained = api.train(
            job,
            cluster,
            folder,
            on_step=on_step,
            on_plan=on_plan,
            on_event=lambda event: handlers[0](event),
            **how,
        )
    files = {name: str(path) for name, path in trained.files.items()}
    print_result(arguments, {"files": files, **_facts(trained.comparison)}, comparison_table(trained.comparison))
    print_wrote(arguments, *trained.files.values())


def _this_machine(arguments: argparse.Namespace) -> Cluster:
    with bar(_notes, "measuring this machine, once", "points") as on_progress:
        workers = getattr(arguments, "workers", 0)
        return this_machine(num_workers=workers, fresh=arguments.fresh, on_progress=on_progress)


def plan(arguments: argparse.Namespace) -> None:
    """`gnnplan plan`."""
    if len(arguments.clusters) > 1 and arguments.accuracy is not None:
        raise UserError("--accuracy is asked of one cluster at a time: name one")
    if arguments.accuracy is None and (arguments.fan_outs or arguments.batch_sizes):
        raise UserError("--fan-outs and --batch-sizes are of pilots, which an accuracy asks for: give --accuracy")
    if arguments.accuracy is None:
        refuse_ignored(arguments, "pilots are made where --accuracy is given", "pilot_epochs")
    if arguments.clusters:
        refuse_ignored(arguments, _OF_THIS_MACHINE, "fresh")
    if len(arguments.clusters) > 1:
        _plan_several(arguments)
        return
    job = with_objective(Job.load(arguments.job), arguments)
    output = arguments.output or output_folder(job, arguments.job) / PLAN_FILE
    check_writable(output)
    if arguments.accuracy is not None:
        plan_by_pilots(job, output, arguments, _this_machine)
        return
    cluster = _where(job, arguments.clusters[0] if arguments.clusters else None, arguments)
    with steps(_notes, "loading the graph") as on_step:
        made = api.plan(job, cluster, output, on_step=on_step)
    print_result(arguments, {"plan": str(output), **made.prediction.model_dump(mode="json")}, plan_table(made))
    print_wrote(arguments, output)


def _where(job: Job, path: Path | None, arguments: argparse.Namespace) -> Cluster | None:
    """The cluster that was named, else this machine; of mini-batches nothing else, for planning measures them there."""
    if path:
        refuse_ignored(arguments, _OF_THIS_MACHINE, "fresh", "workers")
        return read_cluster(path)
    if job.mini_batch is None:
        return _this_machine(arguments)
    refuse_ignored(arguments, "planning mini-batches measures them anew each time", "fresh", "workers")
    return None


def _plan_several(arguments: argparse.Namespace) -> None:
    job = with_objective(Job.load(arguments.job), arguments)
    folder = arguments.output or output_folder(job, arguments.job)
    with steps(_notes, "loading the graph") as on_step:
        found = api.choices(job, arguments.clusters, folder, on_step=on_step)
    print_result(arguments, {"choices": [choice_facts(each) for each in found]}, choices_table(found))
    print_wrote(arguments, *(each.plan.file for each in found if each.plan))
    if not any(each.plan for each in found):
        raise NoPlanFitsError(f"no plan fits any of the {len(found)} clusters: {found[0].reason}")


def simulate(arguments: argparse.Namespace) -> None:
    """`gnnplan simulate`."""
    output = arguments.output or arguments.plan.parent / "predicted.json"
    _check_writable(output, arguments.perfetto)
    plan = load_plan(arguments.plan)
    trace = api.simulate(plan, arguments.replicas)
    assert trace.fluctuating is not None
    p50_s, p95_s = trace.fluctuating.p50_s, trace.fluctuating.p95_s
    trace.save(output)
    if arguments.perfetto:
        write_perfetto(arguments.perfetto, [trace], ["predicted"])
    facts = {"trace": str(output), "epoch_s": trace.median_epoch_s}
    facts |= {"epoch_p50_s": p50_s, "epoch_p95_s": p95_s}
    note = Text(fluctuation_note(plan, trace, arguments.replicas), style="dim")
    print_result(arguments, facts, Group(trace_table(trace), note))
    print_wrote(arguments, output, arguments.perfetto)


def show(arguments: argparse.Namespace) -> None:
    """`gnnplan show`."""
    _check_writable(arguments.dot)
    shown = load_plan(arguments.plan)
    cycle = shown.cycle.cycle()
    if arguments.dot:
        with replacing(arguments.dot) as temporary:
            temporary.write_text(program_graph(cycle, cycle.order[0]), encoding="utf-8")
    assert shown.cycle is not None
    print_result(arguments, shown.cycle.model_dump(mode="json"), program_tables(shown))
    print_wrote(arguments, arguments.dot)


def run(arguments: argparse.Namespace) -> None:
    """`gnnplan run`."""
    folder = arguments.output or arguments.plan.parent / "run"
    check_writable(folder / MEASURED_FILE)
    if arguments.prepare:
        why = "--prepare runs nothing, and its scripts take options of their own"
        refuse_ignored(arguments, why, "timeout", "checkpoint_every", "keep", "resume", "elastic", "restarts")
        scripts = api.prepare_run(arguments.plan, folder)
        written = {"folder": str(folder), "scripts": {host: str(path) for host, path in scripts.items()}}
        print_result(arguments, written, f"copy {folder} to every host, and there run its script:")
        print_wrote(arguments, *scripts.values())
        return
    how = _checkpoints(arguments)
    predicted_s = Plan.load(arguments.plan).prediction.expected_epoch_s
    with epochs_bar(_notes, predicted_s) as on_event:
        trace = api.run(arguments.plan, folder, timeout_s=arguments.timeout, on_event=on_event, **how)
    facts = {
        "folder": str(folder),
        "epoch_s": trace.median_epoch_s,
        "epoch_spread_s": trace.epoch_spread_s,
        "stolen_share": trace.stolen_share,
        "others_share": trace.others_share,
        "epoch_mean_s": trace.mean_epoch_s,
        "epoch_p95_s": trace.p95_epoch_s,
        "peak_bytes": trace.peak_bytes,
        "metric": trace.metric,
        "accuracy": trace.accuracy,
        "final_loss": trace.losses[-1],
    }
    print_result(arguments, facts, trace_table(trace))
    print_wrote(arguments, folder / MEASURED_FILE, folder / MODEL_FILE)


def _checkpoints(arguments: argparse.Namespace) -> dict[str, Any]:
    """As Python's verbs take them."""
    if not arguments.elastic:
        refuse_ignored(arguments, "only --elastic starts again", "restarts")
    elastic = arguments.elastic and arguments.restarts
    every, keep, resume = arguments.checkpoint_every, arguments.keep, arguments.resume
    return {"checkpoint_every": every, "keep": keep, "resume": resume, "elastic": elastic}


def compare(arguments: argparse.Namespace) -> None:
    """`gnnplan compare`."""
    _check_writable(arguments.output, arguments.perfetto, arguments.picture)
    predicted, measured = Trace.load(arguments.predicted), Trace.load(arguments.measured)
    comparison = api.compare(predicted, measured)
    if arguments.output:
        comparison.save(arguments.output)
    if arguments.perfetto:
        write_perfetto(arguments.perfetto, [predicted, measured], ["predicted", "measured"])
    if arguments.picture:
        write_picture(arguments.picture, predicted, measured)
    print_result(arguments, _facts(comparison), comparison_table(comparison))
    print_wrote(arguments, arguments.output, arguments.perfetto, arguments.picture)


def calibrate(arguments: argparse.Namespace) -> None:
    """`gnnplan calibrate`."""
    names, runs = [str(folder) for folder in arguments.runs], [load_run(folder) for folder in arguments.runs]
    calibration = api.calibrate(runs, names)
    profiles = list(calibration.profiles.values())
    files = calibrated_files(profiles, arguments.output, arguments.cluster)
    for path, document in files.items():
        document.save(path)
    stolen_shares = {name: trace.stolen_share for name, (_, trace) in zip(names, runs)}
    facts = {
        "files": [str(path) for path in files],
        "corrections": {made.name: [c.model_dump(mode="json") for c in made.corrections] for made in profiles},
        "stolen_shares": stolen_shares,
    }
    print_result(arguments, facts, Group(*map(calibration_table, profiles), *_stolen_words(stolen_shares)))
    print_wrote(arguments, *files)


def _stolen_words(shares: dict[str, float]) -> list[Text]:
    """Of the runs that were disturbed: what they took is not what the machine takes."""
    words = "of the processor time went to other virtual machines: leave it out, or run it again"
    disturbed = {name: share for name, share in shares.items() if share > TOLERATED_SHARE}
    return [Text(f"{name}: {share:.0%} {words}", style="yellow") for name, share in disturbed.items()]


def emulate(arguments: argparse.Namespace) -> int:
    """`gnnplan emulate`; the exit code is the command's."""
    given = arguments.command
    if given and given[0].startswith("-") and given[0] != "--":
        raise UserError(f"emulate: {given[0]} stands after the cluster file; put options before it, COMMAND after --")
    command = given[1:] if given[:1] == ["--"] else given
    if not command:
        raise UserError("emulate: no command given; put it after --")
    if arguments.json:
        raise UserError("emulate: --json belongs to COMMAND; put it behind that one")
    weather = Weather.load(arguments.weather) if arguments.weather else None
    return emulation.emulate(Cluster.load(arguments.cluster), command, weather)


def demo(arguments: argparse.Namespace) -> None:
    """`gnnplan demo`."""
    check_writable(arguments.output / PLAN_FILE)
    comparison, files = run_demo(
        arguments.output, arguments.workers, partial(bar, _notes), partial(epochs_bar, _notes), _say(arguments)
    )
    print_result(
        arguments,
        {"files": {name: str(path) for name, path in files.items()}, **_facts(comparison)},
        comparison_table(comparison),
    )
    print_wrote(arguments, *files.values())


def _say(arguments: argparse.Namespace):
    def say(renderable: RenderableType) -> None:
        if not arguments.json:
            Console().print(renderable)

    return say


def _check_writable(*paths: Path | None) -> None:
    for path in filter(None, paths):
        check_writable(path)


def _facts(document: Document) -> dict[str, Any]:
    return document.model_dump(mode="json")

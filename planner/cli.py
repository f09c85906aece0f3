"""The `gnnplan` command: train, or step by step measure, plan, simulate, run, compare, calibrate."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from gnnplan.planner.objective.arguments import add_objective
from gnnplan.planner.pilot.arguments import add_batches
from gnnplan.profiles.errors import NoPlanFitsError, RunFailedError, StoppedError, UserError
from gnnplan.profiles.limits import MAX_KEPT, MAX_REPLICAS, MAX_RESTARTS, MAX_SECONDS, MAX_WORKERS
from gnnplan.profiles.stopping import raising_on_sigterm

_Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
_JOB_HELP = 'job file: graph, model, training; three lines will do: graph = "FILE", model = "gcn", epochs = 100'
_CLUSTER_HELP = "cluster file (hosts, devices, links, prices), or a profile file (default: this machine)"
_EXIT_FAILED, _EXIT_USER_ERROR, _EXIT_NO_PLAN, _EXIT_INTERRUPTED = 1, 2, 3, 130
_EXIT_SIGNAL = 128  # and the signal's number, as shells have it


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb; returns the exit code: 0, 1 run failed, 2 user error, 3 no plan fits, 130 and 143 by a signal."""
    arguments = _parser().parse_args(argv)
    try:
        with raising_on_sigterm():
            from gnnplan.planner import commands

            return getattr(commands, arguments.verb)(arguments) or 0
    except UserError as error:
        return _fail(error, _EXIT_USER_ERROR)
    except NoPlanFitsError as error:
        return _fail(error, _EXIT_NO_PLAN)
    except RunFailedError as error:
        return _fail(error, _EXIT_FAILED)
    except MemoryError as error:
        return _fail(f"this machine has not the memory for it ({error})", _EXIT_FAILED)
    except StoppedError as error:
        return _fail(error, _EXIT_SIGNAL + error.number)
    except KeyboardInterrupt:
        return _fail("interrupted", _EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away, e.g. `gnnplan ... | head`
        return 0
    except OSError as error:  # a full disk, or a folder that vanished
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", _EXIT_FAILED)


def _fail(error: object, code: int) -> int:
    print(f"gnnplan: {' '.join(str(error).split())}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gnnplan",
        description="Measures machines, predicts how a GNN would train on them, picks the best plan, runs it.",
        epilog="example: gnnplan train examples/short.toml",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for add in (_add_train, _add_profile, _add_plan, _add_show, _add_simulate, _add_run, _add_infer):
        add(verbs)
    for add in (_add_compare, _add_calibrate, _add_explain, _add_diff, _add_report, _add_whatif, _add_statistics):
        add(verbs)
    for add in (_add_pilot, _add_emulate, _add_demo):
        add(verbs)
    return parser


def _add_train(verbs: _Verbs) -> None:
    train = _verb(
        verbs,
        "train",
        "plan a job for this machine, run it, and lay what was measured over what was predicted",
        "gnnplan train examples/short.toml",
    )
    train.add_argument("job", type=Path, help=_JOB_HELP)
    train.add_argument("cluster", type=Path, nargs="?", help=_CLUSTER_HELP)
    train.add_argument("-o", "--output", type=Path, help="folder for everything it makes (default: out/JOBNAME)")
    train.add_argument("--fresh", action="store_true", help="measure this machine again, whatever profile is kept")
    train.add_argument(
        "--workers", type=_count, default=0, help="workers to profile for (default: devices, or min(2, cores))"
    )
    add_objective(train)
    _add_checkpoints(train)


def _add_profile(verbs: _Verbs) -> None:
    profile = _verb(verbs, "profile", "measure this machine", "gnnplan profile --quick -o out/here.json")
    profile.add_argument(
        "-o", "--output", type=Path, help="profile file to write (default: out/profile.json; a cluster's: out/CLUSTER)"
    )
    profile.add_argument(
        "--workers", type=_count, default=0, help="workers side by side (default: devices, or min(2, cores))"
    )
    profile.add_argument("--quick", action="store_true", help="a coarse grid, about a minute")
    profile.add_argument(
        "--cluster", type=Path, help="profile this cluster's hosts, inside `gnnplan emulate`; -o: a folder"
    )
    profile.add_argument("--list", action="store_true", help="list the catalog's devices instead")


def _add_plan(verbs: _Verbs) -> None:
    plan = _verb(
        verbs,
        "plan",
        "choose the best plan that fits; of several clusters, show the job on each side by side",
        "gnnplan plan examples/job.toml examples/cluster.toml -o out/plan.json",
    )
    plan.add_argument("job", type=Path, help=_JOB_HELP)
    plan.add_argument("clusters", type=Path, nargs="*", metavar="cluster", help=_CLUSTER_HELP)
    plan.add_argument(
        "-o",
        "--output",
        type=Path,
        help="plan file to write (default: out/JOBNAME/plan.json); of several clusters a folder for NAME.json of each",
    )
    plan.add_argument("--fresh", action="store_true", help="measure this machine again, whatever profile is kept")
    plan.add_argument(
        "--accuracy",
        type=_accuracy,
        help="of full batch and mini-batches take what comes to this accuracy first, 0 to 1; both are piloted here",
    )
    plan.add_argument(
        "--pilot-epochs", type=_count, default=50, help="epochs that each pilot trains at most (default 50)"
    )
    add_batches(plan)
    add_objective(plan)


def _add_show(verbs: _Verbs) -> None:
    show = _verb(
        verbs, "show", "print what an epoch of a plan does, operator by operator", "gnnplan show out/plan.json"
    )
    show.add_argument("plan", type=Path)
    show.add_argument("--dot", type=Path, help="also write the epoch's first program as a graph, for Graphviz's `dot`")


def _add_explain(verbs: _Verbs) -> None:
    explain = _verb(verbs, "explain", "say why a plan takes what it takes", "gnnplan explain out/plan.json")
    explain.add_argument("plan", type=Path)
    explain.add_argument(
        "--search", action="store_true", help="load the graph and search again with more memory where it may matter"
    )


def _add_diff(verbs: _Verbs) -> None:
    diff = _verb(
        verbs, "diff", "say how many seconds each difference of two plans moves", "gnnplan diff out/a.json out/b.json"
    )
    diff.add_argument("one", type=Path, metavar="A")
    diff.add_argument("other", type=Path, metavar="B")


def _add_report(verbs: _Verbs) -> None:
    report = _verb(
        verbs,
        "report",
        "write a plan, or a run over its plan, as one HTML file that needs nothing else",
        "gnnplan report out/run -o out/report.html",
    )
    report.add_argument("source", type=Path, metavar="PLAN|RUN", help="plan file, or folder written by `gnnplan run`")
    report.add_argument("-o", "--output", type=Path, help="file to write (default: beside the plan, or in the folder)")


def _add_whatif(verbs: _Verbs) -> None:
    whatif = _verb(
        verbs,
        "whatif",
        "price a job on many machines that you may not have, from statistics of its graph",
        "gnnplan whatif examples/papers100m.toml examples/sweep.toml -o out/sweep",
    )
    whatif.add_argument("job", type=Path, help=_JOB_HELP + '; its graph may be statistics alone: graph = "FILE.json"')
    whatif.add_argument("sweep", type=Path, help="sweep file: devices, machines, model settings")
    whatif.add_argument(
        "-o", "--output", type=Path, help="folder for sweep.json and sweep.png (default: out/SWEEPNAME)"
    )
    whatif.add_argument(
        "--check",
        type=_count,
        default=0,
        metavar="N",
        help="also search a plan on the graph itself for N of the points",
    )


def _add_statistics(verbs: _Verbs) -> None:
    statistics = _verb(
        verbs,
        "statistics",
        "measure sizes, degrees and cuts of a job's graph, for `gnnplan whatif`",
        "gnnplan statistics examples/job.toml -o out/statistics.json",
    )
    statistics.add_argument("job", type=Path, help=_JOB_HELP)
    statistics.add_argument(
        "-o", "--output", type=Path, default=Path("out/statistics.json"), help="file to write (out/statistics.json)"
    )
    statistics.add_argument(
        "--parts", type=_parts, nargs="+", default=(2, 4, 8, 16), help="numbers of parts to cut into (2 4 8 16)"
    )
    statistics.add_argument(
        "--partitioner", choices=("kaminpar", "metis"), default="kaminpar", help="program that cuts the graph"
    )


def _add_pilot(verbs: _Verbs) -> None:
    pilot = _verb(
        verbs,
        "pilot",
        "train full batch and mini-batch for a short while here, and say which plan reaches an accuracy first",
        "gnnplan pilot examples/mini_batch.toml --accuracy 0.9 --epochs 20",
    )
    pilot.add_argument("job", type=Path, help=_JOB_HELP)
    pilot.add_argument("--accuracy", type=_accuracy, help="on validation vertices, 0 to 1; pilots end there")
    pilot.add_argument("--epochs", type=_count, default=50, help="of each family at most (default 50)")
    pilot.add_argument("--plans", type=Path, nargs="+", default=[], help="plan files, of any cluster, to be compared")
    pilot.add_argument("--objective", choices=("time", "money"), default="time", help="by which plans are compared")
    add_batches(pilot)
    pilot.add_argument("-o", "--output", type=Path, help="file of the curves (default: out/JOBNAME/pilots.json)")


def _add_simulate(verbs: _Verbs) -> None:
    simulate = _verb(
        verbs, "simulate", "play a plan on the virtual clock", "gnnplan simulate out/plan.json -o out/predicted.json"
    )
    simulate.add_argument("plan", type=Path)
    simulate.add_argument(
        "-o", "--output", type=Path, help="trace file to write (default: predicted.json beside the plan)"
    )
    simulate.add_argument("--perfetto", type=Path, help="also write a trace for ui.perfetto.dev")
    simulate.add_argument("--replicas", type=_replicas, default=1000, help="epochs played for p50 and p95")


def _add_run(verbs: _Verbs) -> None:
    run = _verb(verbs, "run", "execute a plan on this machine", "gnnplan run out/demo/plan.json -o out/run")
    run.add_argument("plan", type=Path)
    run.add_argument(
        "-o", "--output", type=Path, help="folder for the trace and the model (default: run beside the plan)"
    )
    run.add_argument("--timeout", type=_seconds, default=300.0, help="longest wait in a collective, seconds")
    run.add_argument(
        "--prepare", action="store_true", help="do not run: write a folder with a torchrun script for every host"
    )
    _add_checkpoints(run)


def _add_infer(verbs: _Verbs) -> None:
    infer = _verb(
        verbs,
        "infer",
        "write what a trained model says of every vertex, as a .npy in the order of the graph",
        "gnnplan infer out/demo/plan.json out/demo/model.pt -o out/predictions.npy",
    )
    infer.add_argument("plan", type=Path, metavar="PLAN|JOB", help="plan file, or a job to plan for this machine first")
    infer.add_argument("weights", type=Path, metavar="MODEL|CHECKPOINT", help="model.pt, checkpoint, or a run's folder")
    infer.add_argument("-o", "--output", type=Path, help=".npy to write (default: predictions.npy beside the plan)")
    infer.add_argument(
        "--of", default="", metavar="OPERATOR", help="rows of this operator, as `gnnplan show` names it (the logits)"
    )
    infer.add_argument("--timeout", type=_seconds, default=300.0, help="longest wait in a collective, seconds")


def _add_checkpoints(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--checkpoint-every",
        type=_frequency,
        metavar="HOW_OFTEN",
        help="write a checkpoint every so many seconds (10s) or epochs (20), or never (default: 60s)",
    )
    verb.add_argument("--keep", type=_kept, default=2, help="checkpoints that stay (default 2)")
    verb.add_argument("--resume", action="store_true", help="go on from the last checkpoint in the output folder")
    verb.add_argument(
        "--elastic", action="store_true", help="where workers are lost, plan for who is left and go on from there"
    )
    verb.add_argument(
        "--restarts", type=_restarts, default=3, help="how often --elastic may go on after a loss (default 3)"
    )


def _add_compare(verbs: _Verbs) -> None:
    compare = _verb(
        verbs,
        "compare",
        "lay a measured trace over the predicted one",
        "gnnplan compare out/demo/predicted.json out/demo/measured.json --picture out/epoch.png",
    )
    compare.add_argument("predicted", type=Path)
    compare.add_argument("measured", type=Path)
    compare.add_argument("-o", "--output", type=Path, help="write the comparison as JSON")
    compare.add_argument("--perfetto", type=Path, help="both traces in one file for ui.perfetto.dev")
    compare.add_argument("--picture", type=Path, help="one epoch of both as a PNG")


def _add_calibrate(verbs: _Verbs) -> None:
    calibrate = _verb(
        verbs,
        "calibrate",
        "correct profiles by what runs measured",
        "gnnplan calibrate out/demo -o out/calibrated.json",
    )
    calibrate.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder written by `gnnplan run`")
    calibrate.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("out/calibrated.json"),
        help="profile file to write (default: out/calibrated.json); where runs have several, a folder for NAME.json",
    )
    calibrate.add_argument(
        "--cluster",
        type=Path,
        help="the runs' cluster file: -o is a folder then, with a cluster.json that names the new profiles",
    )


def _add_emulate(verbs: _Verbs) -> None:
    emulate = _verb(
        verbs,
        "emulate",
        "bring a cluster up on this machine and run a command in it (Linux, root)",
        "gnnplan emulate examples/emulated.toml -- gnnplan run out/plan.json -o out/run",
        of_json=argparse.SUPPRESS,  # it is refused, with where to write it
    )
    emulate.description = f"{emulate.description} What prints JSON is COMMAND, by its own --json."
    emulate.add_argument("cluster", type=Path, help="cluster file; hosts' link and cpu_cores are made real")
    emulate.add_argument("--weather", type=Path, help="weather file: rates that change while the command runs")
    emulate.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")


def _add_demo(verbs: _Verbs) -> None:
    demo = _verb(verbs, "demo", "profile, plan, simulate, run and compare a built-in job", "gnnplan demo -o out/demo")
    demo.add_argument("-o", "--output", type=Path, default=Path("out/demo"), help="folder for everything it makes")
    demo.add_argument("--workers", type=_count, default=2, help="workers to plan for (default 2)")


def _verb(
    verbs: _Verbs, name: str, summary: str, example: str, of_json: str = "print one JSON object instead of tables"
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", epilog=f"example: {example}"
    )
    parser.add_argument("--json", action="store_true", help=of_json)
    parser.set_defaults(default_of=parser.get_default)  # by which an option is told from one that was not given
    return parser


def _accuracy(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must be a share above 0 and up to 1, got {text}")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 18 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text}")
    return int(text)


def _parts(text: str) -> int:
    if not 2 <= (count := _count(text)) <= MAX_WORKERS:
        raise argparse.ArgumentTypeError(f"must be from 2 to {MAX_WORKERS:,}, got {text}")
    return count


def _replicas(text: str) -> int:
    if (count := _count(text)) > MAX_REPLICAS:
        raise argparse.ArgumentTypeError(f"must be at most {MAX_REPLICAS:,}, got {text}")
    return count


def _frequency(text: str) -> str:
    from gnnplan.planner.checkpoints import Frequency

    try:
        return str(Frequency.parse(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _kept(text: str) -> int:
    if (count := _count(text)) > MAX_KEPT:
        raise argparse.ArgumentTypeError(f"must be at most {MAX_KEPT}, got {text}")
    return count


def _restarts(text: str) -> int:
    if (count := _count(text)) > MAX_RESTARTS:
        raise argparse.ArgumentTypeError(f"must be at most {MAX_RESTARTS:,}, got {text}")
    return count


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, got {text}")
    return value


if __name__ == "__main__":
    sys.exit(main())

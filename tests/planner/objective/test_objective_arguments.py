"""Options of the command line take the place of the job's objective."""

import argparse

import pytest

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.cli import main
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.objective.arguments import add_objective, with_objective
from gnnplan.planner.objective.spec import ObjectiveSpec
from gnnplan.profiles.errors import UserError

JOB = Job(graph=SbmGraph(source="sbm"), objective=ObjectiveSpec(minimize="time", budget=3.0))


def given(*words):
    """The job with these options."""
    parser = argparse.ArgumentParser()
    add_objective(parser)
    return with_objective(JOB, parser.parse_args(words)).objective


def test_what_is_not_named_stands():
    """Each option is one key."""
    assert given() == JOB.objective
    found = given("--objective", "money", "--deadline", "2h", "--memory-margin", "0.1", "--statistic", "p95")
    assert found == ObjectiveSpec(minimize="money", budget=3.0, deadline_s=7200, memory_margin=0.1, statistic="p95")


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("1.5m", 90), ("30s", 30), ("1d", 86400)])
def test_durations(text, seconds):
    """Seconds, or with a unit."""
    assert given("--deadline", text).deadline_s == seconds


@pytest.mark.parametrize(
    "words",
    [("--deadline", "soon"), ("--deadline", "-3"), ("--deadline", ""), ("--budget", "0"), ("--memory-margin", "1")],
)
def test_what_is_none_is_refused(words, capsys):
    """In one line that names the option."""
    with pytest.raises(SystemExit) as stopped:
        main(["plan", "job.toml", words[0], words[1]])
    assert stopped.value.code == 2
    assert f"argument {words[0]}: must be" in capsys.readouterr().err


def test_mini_batches_have_none():
    """They are planned where they run, for the shortest epoch."""
    job = Job(graph=SbmGraph(source="sbm"), mini_batch=MiniBatchSpec(fan_outs=(5, 5)))
    parser = argparse.ArgumentParser()
    add_objective(parser)
    with pytest.raises(UserError, match="leave objective out"):
        with_objective(job, parser.parse_args(["--budget", "3"]))


def test_the_short_form():
    """A word stands for what is least."""
    raw = {"graph": "sbm", "model": "gcn", "epochs": 3, "objective": "money"}
    assert Job.parse(raw, where="job").objective == ObjectiveSpec(minimize="money")

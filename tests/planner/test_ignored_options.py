"""An option that would do nothing is refused, by its name."""

import argparse

import pytest

from gnnplan.planner.cli import main
from gnnplan.planner.ignored_options import refuse_ignored
from gnnplan.profiles.errors import UserError

DEFAULTS = {"keep": 2, "checkpoint_every": None, "resume": False}


def test_options_as_they_are_by_default_are_none():
    """Neither is one that the verb does not have."""
    refuse_ignored(argparse.Namespace(keep=2, default_of=DEFAULTS.get), "why", "keep", "fresh")


def test_all_that_are_given_are_named():
    arguments = argparse.Namespace(keep=3, checkpoint_every="5", resume=False, default_of=DEFAULTS.get)
    with pytest.raises(UserError, match="--keep, --checkpoint-every: why; leave it out"):
        refuse_ignored(arguments, "why", "keep", "resume", "checkpoint_every")


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("run plan.json --prepare --timeout 60", "--timeout"),
        ("profile --cluster cluster.toml --workers 2", "--workers"),
        ("profile --list --quick", "--quick"),
        ("run plan.json --restarts 5", "--restarts"),
        ("train examples/job.toml --restarts 5", "--restarts"),
        ("pilot examples/job.toml --objective money", "--objective"),
        ("emulate cluster.toml --json -- true", "--json"),
        ("plan job.toml a.toml b.toml --fan-outs 5,5", "--fan-outs"),
        ("plan job.toml cluster.toml --pilot-epochs 5", "--pilot-epochs"),
        ("plan examples/job.toml examples/cluster.toml --fresh", "--fresh"),
        ("train examples/job.toml examples/cluster.toml --workers 2", "--workers"),
    ],
)
def test_verbs_refuse_them(line, option, capsys):
    """Before anything else is read or made."""
    assert main(line.split()) == 2
    assert option in capsys.readouterr().err

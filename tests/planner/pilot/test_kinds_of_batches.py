"""Kinds of mini-batches that are piloted, from the command line and by default."""

import pytest

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.cli import _parser, main
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.pilot.batches import batches_words, kinds_of, usual_batches
from gnnplan.planner.pilot.run import families_of
from gnnplan.profiles.errors import UserError

JOB = Job(graph=SbmGraph(source="sbm"), model=ModelSpec(num_layers=2))


def asked(*words):
    """What the options come to."""
    arguments = _parser().parse_args(["pilot", "job.toml", *words])
    return kinds_of(JOB, arguments.fan_outs, arguments.batch_sizes)


def test_every_combination_is_a_kind():
    """Of what is not given the job's; each once."""
    assert asked() == ()
    kinds = asked("--fan-outs", "5,5", "10,all", "5,5", "--batch-sizes", "256", "1024")
    assert [(each.fan_outs, each.batch_size) for each in kinds] == [
        ((5, 5), 256),
        ((5, 5), 1024),
        ((10, -1), 256),
        ((10, -1), 1024),
    ]
    assert [each.batch_size for each in asked("--fan-outs", "5,5")] == [usual_batches(JOB).batch_size]
    assert [each.fan_outs for each in asked("--batch-sizes", "7")] == [(10, 10)]
    assert batches_words(kinds[-1]) == "fan-outs 10 and all, batches of 1024"


def test_each_kind_is_a_family():
    """Beside full batch; of the wrong number of hops there is none."""
    kinds = asked("--fan-outs", "5,5", "10,10")
    assert [each.mini_batch for each in families_of(JOB, kinds)] == [None, *kinds]
    own = JOB.model_copy(update={"mini_batch": MiniBatchSpec(fan_outs=(3, 3))})
    assert families_of(own)[-1].mini_batch == own.mini_batch
    with pytest.raises(UserError, match="has 1 hops, and the model's 2 layers sum 2 times"):
        families_of(JOB, asked("--fan-outs", "5"))
    with pytest.raises(UserError, match="20 at most"):
        kinds_of(JOB, [(5, 5)], range(1, 22))


@pytest.mark.parametrize("words", ["0,5", "5,", "x", "-1,5", "5;5"])
def test_what_is_no_fan_out_is_said(words, capsys):
    """In one line of the command."""
    with pytest.raises(SystemExit):
        _parser().parse_args(["pilot", "job.toml", f"--fan-outs={words}"])
    assert "must be whole numbers of at least 1" in capsys.readouterr().err


def test_without_an_accuracy_nothing_is_piloted(tmp_path, capsys):
    """So kinds of mini-batches say nothing."""
    job = JOB.save(tmp_path / "job.json")
    assert main(["plan", str(job), "--fan-outs", "5,5"]) == 2
    assert "give --accuracy" in capsys.readouterr().err

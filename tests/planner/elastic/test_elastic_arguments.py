"""`--elastic` and `--restarts` come to the verbs as they were given."""

import pytest

from gnnplan.planner import cli, commands
from gnnplan.planner.elastic.run import DEFAULT_NUM_RESTARTS, Elastic
from gnnplan.profiles.errors import UserError


def given(verb, *words):
    """What `api` is told of a command line."""
    return Elastic.of(commands._checkpoints(cli._parser().parse_args([verb, "a.json", *words]))["elastic"])


@pytest.mark.parametrize("verb", ["run", "train"])
def test_a_run_ends_at_a_loss_unless_it_is_elastic(verb):
    """Restarts alone ask for nothing, and are refused; their default is that of Python."""
    assert given(verb) is None
    with pytest.raises(UserError, match="--restarts: only --elastic starts again"):
        given(verb, "--restarts", "7")
    assert given(verb, "--elastic") == Elastic.of(True) == Elastic(DEFAULT_NUM_RESTARTS)
    assert given(verb, "--elastic", "--restarts", "7") == Elastic(7)


@pytest.mark.parametrize("number", ["0", "-1", "1001", "two"])
def test_other_numbers_are_refused(number, capsys):
    """Before anything is read."""
    with pytest.raises(SystemExit):
        given("run", "--elastic", "--restarts", number)
    assert "--restarts" in capsys.readouterr().err

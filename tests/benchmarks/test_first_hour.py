"""The first hour: its quick tasks have answers, and what is typed stands on the page that is named."""

import shlex

import pytest

from benchmarks import first_hour
from benchmarks._common import ROOT
from benchmarks._first_hour_player import Task, in_a_shell, play
from benchmarks._first_hour_tasks import TASKS
from gnnplan.planner.cli import _parser
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.job import Job
from gnnplan.profiles.contract import read_mapping
from gnnplan.profiles.errors import UserError


def calls_of(task):
    """What follows `gnnplan` in the task's commands, up to what a shell ends a command by."""
    for command in task.commands:
        for part in command.replace("&", ";").split(";"):
            words = shlex.split(part)
            if words[:1] == ["gnnplan"]:
                yield words[1:]


@pytest.mark.long
def test_quick_tasks_have_answers():
    """Those that neither measure nor start workers are played to their ends."""
    result = first_hour.main(quick=True)
    assert [row["answer"] for row in result["rows"] if not row["done"]] == []
    assert result["done"] == result["played"] == 4
    assert (result["tasks"], result["most_commands"]) == (12, 5)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_is_on_its_page(task):
    """Verbs and options stand there or in the README; the command line knows them; five commands are the most."""
    page = " ".join((ROOT / name).read_text(encoding="utf-8") for name in (task.page, "README.md"))
    for words in calls_of(task):
        _parser().parse_args(words)
        assert f"gnnplan {words[0]} " in page
        for option in (word for word in words if word.startswith("-")):
            assert option in page, option
    assert 1 <= len(task.commands) <= 5


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_files_of_a_task_are_valid(task, tmp_path):
    """Jobs and clusters are read without a fault, and scripts compile."""
    for name, text in task.files.items():
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        if name.endswith(".py"):
            compile(text, name, "exec")
        elif "job" in name or name == "mini_batch.toml":
            Job.load(path)
        elif "hosts" in read_mapping(path):
            Cluster.load(path)


def test_what_fails_is_named(tmp_path):
    """The command, its exit code, and the last line that it printed."""
    task = Task("none", "README.md", ("echo lost >&2; exit 3",), lambda folder, printed: "fine")
    with pytest.raises(UserError, match=r"exit 3: ended with exit code 3: lost"):
        play(task, tmp_path, in_a_shell)
    with pytest.raises(UserError, match=r"sleep 30: took longer than 0\.2 s"):
        in_a_shell("sleep 30", tmp_path, timeout_s=0.2)


def test_a_wrong_answer_is_not_done(monkeypatch):
    """A task whose commands succeed and whose answer does not."""

    def wrong(folder, printed):
        raise UserError(f"the answer is wrong: {printed.strip()}")

    task = Task("none", "README.md", ("gnnplan profile --list",), wrong, is_quick=True)
    monkeypatch.setattr(first_hour, "TASKS", (task,))
    (row,) = first_hour.main(quick=True)["rows"]
    assert row["done"] is False
    assert row["answer"].startswith("UserError: the answer is wrong: a10 ")

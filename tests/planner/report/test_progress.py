"""Progress is seen without a terminal too, and says what one waits for."""

import io

import pytest
from rich.console import Console

from gnnplan.planner.report import progress
from gnnplan.planner.report.progress import bar, epoch_words, epochs_bar, steps

EVENT = {"event": "epoch", "epoch": 29, "epochs": 100, "loss": 0.53, "epoch_s": 0.2, "accuracy": {"val": 0.771}}


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def no_terminal():
    return Console(file=io.StringIO(), force_terminal=False, width=80)


def lines(console):
    return console.file.getvalue().splitlines()


def test_lines_come_every_few_seconds(clock):
    """Neither for what is over at once, nor for every step."""
    console = no_terminal()
    with bar(console, "measuring", "points") as update:
        update(1, 50)
        for step in range(2, 14):
            clock[0] += 1.0
            update(step, 50)
    assert lines(console) == ["measuring: 6 of 50 points", "measuring: 11 of 50 points"]


def test_steps_are_lines_too(clock):
    """The one at hand when a line is due."""
    console = no_terminal()
    with steps(console, "loading the graph") as on_step:
        on_step("cutting")
        clock[0] += 6.0
        on_step("choosing")
    assert lines(console) == ["choosing"]


def test_an_epoch_says_what_one_waits_for(clock):
    """Loss, accuracy, seconds an epoch beside the predicted, what is left; in one line however long."""
    console = no_terminal()
    with epochs_bar(console, 0.21) as on_event:
        clock[0] += 6.0
        on_event(EVENT)
    words = "loss 0.53, val 77.1%, 200 ms an epoch (210 ms predicted), 14 s left"
    assert lines(console) == [f"training: 30 of 100 epochs, {words}"]


def test_what_an_event_does_not_tell_is_left_out():
    """As of mini-batches."""
    assert epoch_words({"epoch": 1, "epochs": 3}, None) == ""
    assert epoch_words({"epoch": 1, "epochs": 3, "loss": 1.0}, 0.5) == "loss 1"


def test_a_terminal_has_a_bar():
    """The same words beside it, and nothing is left of it."""
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with epochs_bar(console, 0.21) as on_event:
        on_event(EVENT)
    assert "val 77.1%" in console.file.getvalue()


def test_brackets_of_an_error_are_printed(clock):
    """A path in one is no mark of a style."""
    console, words = no_terminal(), "worker 1 was lost: [/third_party/gloo/buffer.cc:78] timed out; planning anew"
    with epochs_bar(console) as on_event:
        on_event({"event": "note", "words": words})
    assert lines(console) == [words]

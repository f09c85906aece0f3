"""SIGTERM and SIGINT: noted or raised, and handled as before afterwards."""

import os
import signal
import threading

import pytest

from gnnplan.planner import cli, commands
from gnnplan.profiles.errors import StoppedError
from gnnplan.profiles.stopping import noting_signals, raising_on_sigterm


def handlers():
    """Of both signals."""
    return [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]


@pytest.fixture(autouse=True)
def hearing():
    """Whatever the shell that started the tests ignores."""
    before = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT)]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_noted(number):
    """It ends nothing, and others are taken as before when the context is left."""
    before = handlers()
    with noting_signals() as stop:
        assert stop.number == 0
        os.kill(os.getpid(), number)
        assert stop.number == number
    assert handlers() == before


def test_a_second_interrupt_waits_for_nothing():
    """A second SIGTERM does: schedulers send several."""
    with noting_signals() as stop:
        for _ in range(2):
            stop.take(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            stop.take(signal.SIGINT)


def test_what_was_ignored_stays_so():
    """A run under nohup, or in the background of a script, is not ended by Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with noting_signals() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.number == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_gets_none():
    """Python takes signals in the main thread alone; elsewhere nothing is asked for."""
    before, seen = handlers(), []

    def work():
        with noting_signals() as stop, raising_on_sigterm():
            seen.append(stop.number)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert seen == [0]
    assert handlers() == before


def test_sigterm_while_a_verb_works_ends_it_in_one_line(monkeypatch, capsys, tmp_path):
    """With the shell's exit code, after whatever was under way has cleaned up."""
    cleaned, before = [], handlers()

    def slow(_):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            cleaned.append(True)

    monkeypatch.setattr(commands, "show", slow)
    assert cli.main(["show", str(tmp_path / "plan.json")]) == 143
    assert capsys.readouterr().err == "gnnplan: ended by SIGTERM\n"
    assert cleaned == [True]
    assert handlers() == before


def test_it_is_no_error_that_others_catch():
    """Neither a failed run's nor a user's; who waits for an interrupt takes it."""
    error = StoppedError("ended by SIGINT", signal.SIGINT)
    assert isinstance(error, KeyboardInterrupt)
    assert not isinstance(error, Exception)

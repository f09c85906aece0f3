"""An emulation is taken down when its owner is gone, and not before; in `test_emulate.py` owners are really killed."""

import os
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from gnnplan.planner.emulation import reaper
from gnnplan.profiles.errors import RunFailedError, UserError


@pytest.fixture
def owner(monkeypatch):
    """The owner's end of the reaper's pipe; what the test's own process does on signals stays as it is."""
    reading, writing = os.pipe()
    monkeypatch.setattr(sys, "argv", ["reaper", "gnnplan7", "/tmp/gnnplan7-x"])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(fileno=lambda: reading))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with open(writing, "wb", buffering=0) as end:
        yield end
    os.close(reading)


def test_it_waits_for_the_owners_end(owner, monkeypatch):
    """Whatever the owner writes is no end of it; then the emulation goes, and its own folder."""
    taken = []
    monkeypatch.setattr(reaper, "take_down", lambda *what: taken.append(what))
    waiting = threading.Thread(target=reaper.main, daemon=True)
    waiting.start()
    owner.write(b"still here")
    waiting.join(0.05)
    assert waiting.is_alive()
    assert taken == []
    owner.close()
    waiting.join(10)
    assert taken == [("gnnplan7", Path("/tmp/gnnplan7-x"))]


def test_signals_that_end_the_owner_do_not_end_it(owner, monkeypatch):
    """An interrupted terminal sends them to both; they are ignored before anything is waited for."""
    ignored = {}
    monkeypatch.setattr(signal, "signal", ignored.__setitem__)
    monkeypatch.setattr(reaper, "take_down", lambda *_: None)
    owner.close()
    reaper.main()
    assert ignored == dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_IGN)


@pytest.mark.parametrize("kind", [RunFailedError, UserError])
def test_what_could_not_be_removed_is_one_line_and_a_code(kind, owner, monkeypatch):
    """By the code the owner, where it still is, knows that there is something left to do."""

    def fail(*_):
        raise kind("emulate: could not be removed:\n  gnnplan7-0")

    monkeypatch.setattr(reaper, "take_down", fail)
    owner.close()
    with pytest.raises(SystemExit) as caught:
        reaper.main()
    assert caught.value.code == "gnnplan: emulate: could not be removed: gnnplan7-0"

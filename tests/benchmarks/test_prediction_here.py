"""Predictions from a quiet and from a disturbed profile: what is busy, what is said, what is silently worse."""

import os
import signal
import subprocess
import time

import pytest

from benchmarks import _common, prediction_here
from benchmarks._busy_beside import busy_beside_first
from gnnplan.profiles.catalog import catalog_profile


@pytest.fixture
def busy(monkeypatch):
    """The processes that were started to be busy."""
    started, popen = [], subprocess.Popen

    def watched(*arguments, **options):
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr("benchmarks._busy_beside.subprocess.Popen", watched)
    return started


def ended(process):
    """By a signal, within a second."""
    deadline_s = time.monotonic() + 1
    while process.poll() is None and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return process.poll() == -signal.SIGKILL


def test_a_process_is_busy_until_its_share_is_done(busy):
    """It uses the processor until then, and no longer."""
    with busy_beside_first(0.5) as on_progress:
        on_progress(5, 10)
        time.sleep(0.3)
        with open(f"/proc/{busy[0].pid}/stat") as file:
            assert int(file.read().split()[13]) / os.sysconf("SC_CLK_TCK") > 0.02
        on_progress(6, 10)
        assert ended(busy[0])
        on_progress(10, 10)


def test_a_process_does_not_outlive_what_fails(busy):
    """However the profile ends."""
    with pytest.raises(KeyError), busy_beside_first(0.5):
        raise KeyError
    assert ended(busy[0])


@pytest.fixture
def measured(tmp_path, monkeypatch, busy):
    """Profiles are the catalog's; one beside which something was busy says so, where that is noticed."""
    noticed = {"it": True}

    def profile_machine(*, num_workers, quick, on_progress):
        on_progress(1, 10)
        is_busy = any(process.poll() is None for process in busy)
        on_progress(10, 10)
        share = 0.3 if is_busy and noticed["it"] else 0.0
        return catalog_profile("t4").model_copy(update={"others_share": share, "note": f"busy {is_busy}"})

    errors = {"quiet": 0.05, "busy": 0.4}

    def predict_and_run(jobs, cluster, folder, title):
        error = errors["busy" if "busy" in title else "quiet"]
        return {"mape": error, "worst": error, "median_spread": 0.1, "settings": len(jobs), "rows": []}

    monkeypatch.setattr(_common, "profile_machine", profile_machine)
    monkeypatch.setattr(prediction_here, "OUT", tmp_path)
    monkeypatch.setattr(prediction_here, "predict_and_run", predict_and_run)
    return errors, noticed


def test_a_disturbed_profile_says_so(measured):
    """Then its error may be large; the quiet one is not said to be disturbed."""
    result = prediction_here.main(quick=True)
    assert (result["quiet_error"], result["busy_error"], result["said_so"]) == (0.05, 0.4, True)
    assert result["silently_worse"] == []
    assert [part["said"] for part in result["forms"]["quiet"]] == [[]]
    assert "while other programs used 30%" in result["forms"]["busy"][0]["said"][0]


def test_what_is_worse_and_says_nothing_is_listed(measured):
    """A profile that does not notice, and predictions of a quiet one that miss."""
    errors, noticed = measured
    errors["quiet"], noticed["it"] = 0.2, False
    result = prediction_here.main(quick=True)
    assert result["said_so"] is False
    assert result["silently_worse"] == ["quiet, this machine", "busy, this machine"]

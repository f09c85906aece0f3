"""The profiling worker measures the grid it is told and leaves the host's profile where it is looked for."""

import sys
from types import SimpleNamespace

import pytest

from gnnplan.profiles import profiler, worker


@pytest.mark.parametrize("is_first", [True, False])
def test_the_first_worker_of_a_host_writes_its_profile(tmp_path, monkeypatch, is_first):
    """The others write nothing."""
    saved, measured = [], []
    profile = SimpleNamespace(save=saved.append) if is_first else None
    monkeypatch.setattr(profiler, "measure_as_worker", lambda grid: measured.append(grid) or profile)
    for key, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "GROUP_RANK": "4"}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(sys, "argv", ["worker", str(tmp_path), "--grid", "full"])
    worker.main()
    assert measured == ["full"]
    assert saved == ([tmp_path / "host_4.json"] if is_first else [])


def test_an_unknown_grid_is_refused(tmp_path, monkeypatch, capsys):
    """With the grids that there are."""
    monkeypatch.setattr(sys, "argv", ["worker", str(tmp_path), "--grid", "tiny"])
    with pytest.raises(SystemExit):
        worker.main()
    assert "invalid choice: 'tiny'" in capsys.readouterr().err

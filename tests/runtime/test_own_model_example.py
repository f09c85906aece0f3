"""`examples/own_model.py` runs as it stands, and is what the documentation says."""

import runpy
from pathlib import Path

import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.profiles.catalog import catalog_profile
from tests import warm

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.distributed


@pytest.mark.long
def test_it_trains(tmp_path, capsys):
    """On two workers with a published device's figures, instead of this machine's, which would have to be profiled."""
    path = tmp_path / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    cluster = Cluster(hosts=(HostSpec(name="here", devices=(DeviceSpec(profile=path, count=2),)),))
    with warm.runs():
        plan = runpy.run_path(str(ROOT / "examples" / "own_model.py"))["main"](cluster, tmp_path / "out")
    assert plan.job.model.words == "module of a Python program"
    right = capsys.readouterr().out.splitlines()[-1]
    assert float(right.split("%")[0]) > 80
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"plan.json", "measured.json", "model.pt"}


def test_the_documentation_shows_its_call():
    """The line that trains is the same, whatever the names of the other arguments."""
    shown = (ROOT / "docs" / "tutorials" / "own_model.md").read_text()
    assert "trained = gnnplan.train(model=module, graph=data, epochs=100)" in shown
    assert "gnnplan.train(model=module, graph=data, epochs=50" in (ROOT / "examples" / "own_model.py").read_text()

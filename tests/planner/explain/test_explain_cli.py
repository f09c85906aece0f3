"""`gnnplan explain` end to end: from a plan file to sentences, tables or one JSON object."""

import json

import pytest

from gnnplan.planner import api
from gnnplan.planner.cli import main
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.search import mini_batch
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link
from tests.planner.search.measured import JOB as BATCHED
from tests.planner.search.measured import measured, split, worker

GRAPH = SbmGraph(source="sbm", num_nodes=300, average_degree=8, num_classes=3, num_features=16)
HOSTS = tuple(
    HostSpec(name=name, devices=(DeviceSpec(catalog="t4"),), link=Link(bytes_per_s=rate))
    for name, rate in (("near", 1e9), ("far", 1e7))
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A plan on two hosts, one of them far."""
    pin = PinnedDecisions(num_workers=2, dependencies="communicate")
    path = tmp_path_factory.mktemp("explained") / "plan.json"
    api.plan(Job(graph=GRAPH, model=ModelSpec(hidden_channels=8), pin=pin), Cluster(hosts=HOSTS), path)
    return path


def test_it_says_why(path, capsys, monkeypatch):
    """In 80 columns: the path, what binds, prices, memory, what lost."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["explain", str(path)]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    for words in ("set by worker", "what binds each worker", "link of far", "simulated", "memory to spare",
                  "one worker alone"):  # fmt: skip
        assert words in " ".join(shown.split())


def test_json_is_the_explanation(path, capsys):
    """The same data as the API's."""
    assert main(["explain", str(path), "--json"]) == 0
    raw = json.loads(capsys.readouterr().out)
    plan = Plan.load(path)
    assert raw == api.explain(plan).model_dump(mode="json")
    assert raw["epoch_s"] == pytest.approx(plan.prediction.epoch_s)
    assert sum(part["share"] for part in raw["path"]) == pytest.approx(1)


@pytest.mark.long
def test_search_asks_what_more_memory_is_worth(path, capsys, tmp_path):
    """Only of workers with less than a gigabyte to spare; here it is worth nothing."""
    plan = Plan.load(path)
    tight = tuple(
        worker.model_copy(update={"memory_bytes": load.peak_bytes + 1000})
        for worker, load in zip(plan.placement.workers, plan.prediction.workers)
    )
    loads = tuple(
        load.model_copy(update={"capacity_bytes": load.peak_bytes + 1000}) for load in plan.prediction.workers
    )
    placement = plan.placement.model_copy(update={"workers": (tight[0], *plan.placement.workers[1:])})
    prediction = plan.prediction.model_copy(update={"workers": (loads[0], *plan.prediction.workers[1:])})
    plan = plan.model_copy(update={"placement": placement, "prediction": prediction})
    plan.save(tmp_path / "plan.json")
    assert main(["explain", str(tmp_path / "plan.json"), "--search", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["memory"]
    assert (first["spare_bytes"], first["more_bytes"]) == (1000, 10**9)
    assert first["moved_s"] == pytest.approx(0, abs=1e-3 * plan.prediction.epoch_s)
    assert second["more_bytes"] == 0


def test_of_mini_batches_no_resource_has_a_price(monkeypatch, tmp_path, capsys):
    """Their stages were measured as a whole, and nothing is searched again."""
    monkeypatch.setattr(mini_batch, "measure_batches", lambda *_, **__: measured(worker(split(3, 5, 1, 4))))
    plan = mini_batch.plan_mini_batches(BATCHED, None)[0]
    assert api.explain(plan).prices == ()
    plan.save(tmp_path / "plan.json")
    assert main(["explain", str(tmp_path / "plan.json")]) == 0
    assert "were measured as a whole" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(UserError, match="leave --search out"):
        api.explain(plan, graph=api.load_graph(GRAPH))


def test_another_graph_is_refused(path):
    """The search would be one for another plan."""
    with pytest.raises(UserError, match="make a new plan for it"):
        api.explain(Plan.load(path), graph=api.load_graph(GRAPH.model_copy(update={"seed": 7})))


def test_a_missing_plan_is_one_line(capsys, tmp_path):
    """As every verb says it."""
    assert main(["explain", str(tmp_path / "none.json")]) == 2
    assert "no such file" in capsys.readouterr().err

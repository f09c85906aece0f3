"""A report has what the plan and the run say, loads nothing, and believes no name."""

import re

import pytest

import gnnplan
from gnnplan.planner import api
from gnnplan.planner.cli import main
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.report.html.page import plan_page
from gnnplan.planner.report.html.plan_parts import _hosts
from gnnplan.planner.report.units import seconds, size
from gnnplan.planner.report_file import write_report
from gnnplan.planner.search import mini_batch, simulate_plan
from gnnplan.planner.techniques.registry import technique
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link
from tests.planner.report.html.parsed import parsed
from tests.planner.search.measured import JOB, measured, split, worker

EVIL = "<script>alert('x')</script>\"&"
GRAPH = SbmGraph(source="sbm", num_nodes=400, average_degree=8, num_classes=3, num_features=8)


def plan_on(folder, count, **job):
    """A plan for so many devices of a host."""
    cluster = Cluster(
        hosts=(HostSpec(name="box", price_per_hour=2.0, devices=(DeviceSpec(catalog="t4", count=count),)),),
        device_link=Link(bytes_per_s=1e9),
    )
    pin = PinnedDecisions(num_workers=count, partitioner="ranges")
    given = {"graph": GRAPH, "model": ModelSpec(hidden_channels=8), "training": TrainingSpec(epochs=5), "pin": pin}
    return api.plan(Job(**given | job), cluster, folder / "plan.json")


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """Two workers, under a name that is markup."""
    return plan_on(tmp_path_factory.mktemp("plan"), 2, name=EVIL)


@pytest.fixture(scope="module")
def run(plan):
    """What was predicted, and as if measured: everything half as long again."""
    predicted = simulate_plan(plan, 50)
    spans = tuple(
        span.model_copy(update={"start_s": 1.5 * span.start_s, "end_s": 1.5 * span.end_s}) for span in predicted.spans
    )
    epochs = tuple(1.5 * predicted.median_epoch_s * factor for factor in (0.9, 1.0, 1.1))
    changes = {"origin": "measured", "spans": spans, "epoch_s": epochs, "losses": (1.0,), "fluctuating": None}
    return predicted, predicted.model_copy(update={**changes, "accuracy": {"test": 0.75}})


@pytest.fixture(scope="module")
def pages(plan, run):
    """Of the plan, and of the run."""
    return [plan_page(plan, run[0], None), plan_page(plan, *run)]


def test_names_are_text(plan, pages):
    """The job's name is markup, and stands there as text: the page has no element that it did not make."""
    for text in pages:
        page = parsed(text)
        assert EVIL in page.all("h1")[0].text
        assert EVIL in page.all("title")[0].text
        assert not page.all("script")
        names = {node.name for node in page.all("body")[0].children if not isinstance(node, str)}
        assert names == {"header", "section", "footer"}


def test_nothing_is_loaded(pages):
    """No address, no file, no font, no frame; and the page's own policy forbids them."""
    for text in pages:
        page = parsed(text)
        assert not re.search(r"https?:|//[a-z]|url\(|@import|\bsrc=|\bhref=", text)
        assert not [node for name in ("link", "img", "iframe", "object", "script") for node in page.all(name)]
        policy = next(each for each in page.all("meta") if "http-equiv" in each.attributes)
        assert policy.attributes["content"].startswith("default-src 'none'")
        assert "on" not in {key[:2] for node in page.all("svg") for key in node.attributes}
        assert len(text) < 200_000


def test_the_figures_are_the_plan_s(plan, pages):
    """Epoch, interval, bounds, techniques, memory and bytes, as the plan has them."""
    page, prediction = parsed(pages[0]), plan.prediction
    facts = {each.all("span")[0].text: each for each in page.all("div", "fact")}
    assert facts["epoch, predicted"].all("b")[0].text == seconds(prediction.expected_epoch_s)
    assert seconds(prediction.interval.high_s) in facts["epoch, predicted"].text
    assert "epoch, measured" not in facts
    sure = page.section("How good, and how sure").text
    assert seconds(prediction.bound_s) in sure
    assert prediction.schedule_bound_resource in sure
    assert "100% of the tasks' seconds are guesses" in sure
    techniques = page.section("What each technique gains").text
    for chosen in plan.choices:
        assert technique(chosen.technique).words(chosen.choice().decision) in techniques
    rows = page.section("Workers").all("tbody")[0].all("tr")
    for row, load in zip(rows, prediction.workers, strict=True):
        assert size(load.peak_bytes) in row.text
        assert size(load.sent_bytes) in row.text
    for each in plan.rejected:
        assert each.summary in page.section("What was not chosen").text
    for key in prediction.unprofiled:
        assert key in page.section("What was not measured").text


def test_bars_are_the_trace_s(run, pages):
    """Each worker has a strip a side; predicted bars end at two thirds of where the measured ones do."""
    alone, both = [parsed(text).section("One epoch").all("svg", "strip") for text in pages]
    assert len(alone) == 2
    assert len(both) == 4
    ends = [max(float(m.attributes["x"]) + float(m.attributes["width"]) for m in each.all("rect")) for each in both]
    assert max(ends[1::2]) == pytest.approx(1000, abs=1)
    assert max(ends[::2]) == pytest.approx(1000 / 1.5, abs=1)
    drawn = {title.text.split(": ")[0].split(",")[0] for each in both for title in each.all("title")}
    assert {span.task for span in run[0].spans if span.end_s - span.start_s > 0.05 * run[0].median_epoch_s} <= drawn


def test_a_run_says_how_far_off_the_prediction_was(plan, run, pages):
    """Beside the interval; with the accuracy reached."""
    page = parsed(pages[1])
    facts = {each.all("span")[0].text: each.text for each in page.all("div", "fact")}
    error = run[0].expected_epoch_s / run[1].median_epoch_s - 1
    assert f"prediction {error:+.1%}, within the interval" in facts["epoch, measured"]
    compared = page.section("Predicted against measured").text
    assert "75.00%" in compared
    assert seconds(run[1].median_epoch_s) in compared


@pytest.mark.long
def test_the_verb_takes_a_plan_and_a_run(plan, run, tmp_path, capsys):
    """And says in a line what is missing, or of another plan."""
    assert main(["report", str(plan.file), "-o", str(tmp_path / "a.html")]) == 0
    assert parsed((tmp_path / "a.html").read_text()).all("h1")[0].text == f"{EVIL}: plan"
    folder = tmp_path / "run"
    folder.mkdir()
    plan.save(folder / "plan.json")
    assert main(["report", str(folder)]) == 2
    assert "measured.json: no such file" in capsys.readouterr().err
    run[1].save(folder / "measured.json")
    assert main(["report", str(folder)]) == 0
    assert parsed((folder / "report.html").read_text()).all("h1")[0].text == f"{EVIL}: run"
    run[1].model_copy(update={"plan_fingerprint": "0" * 16}).save(folder / "measured.json")
    with pytest.raises(UserError, match="different plans"):
        write_report(folder, tmp_path / "b.html")
    assert not (tmp_path / "b.html").exists()


def test_python_s_verb(plan, tmp_path):
    """Of a plan in memory."""
    written = gnnplan.report(plan, tmp_path / "a.html")
    assert parsed(written.read_text()).all("h1")[0].text == f"{EVIL}: plan"


@pytest.mark.long
def test_many_workers_are_not_all_drawn(tmp_path):
    """It says how many are left out, and the page stays small."""
    plan = plan_on(tmp_path, 20)
    text = plan_page(plan, simulate_plan(plan, 10), None)
    page = parsed(text)
    assert len(page.section("One epoch").all("svg", "strip")) == 16
    assert "4 more workers are not drawn" in page.section("One epoch").text
    of_hosts = _hosts(plan)
    assert sum(count for _, count in of_hosts) == plan.num_workers
    assert len(text) < 200_000


def test_mini_batches_have_a_report(monkeypatch):
    """No interval is known for them, no share of the graph, and no search; thousands of tasks stay a small page."""
    found = measured(worker(split(3, 5, 1, 4), num_batches=400))
    monkeypatch.setattr(mini_batch, "measure_batches", lambda *_, **__: found)
    plan = mini_batch.plan_mini_batches(JOB, None)[0]
    text = plan_page(plan, simulate_plan(plan, 5), None)
    page = parsed(text)
    assert "none is known for mini-batches" in page.section("How good, and how sure").text
    assert page.section("One epoch").all("rect")
    assert "were measured as a whole" in page.section("What would help").text
    assert len(text) < 400_000

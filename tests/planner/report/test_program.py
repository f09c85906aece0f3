"""A plan's programs as a person reads them."""

import io

import pytest
from rich.console import Console

from gnnplan.planner import api, cli
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.report.program import program_graph, program_tables
from gnnplan.planner.run import write_shards
from gnnplan.profiles.errors import UserError

GRAPH = SbmGraph(source="sbm", num_nodes=80, average_degree=6, num_classes=3, num_features=8)


def planned(tmp_path, **pin):
    """A plan of two workers on catalog devices."""
    cluster = Cluster(hosts=(HostSpec(name="here", devices=(DeviceSpec(catalog="t4", count=2),)),))
    pins = PinnedDecisions(num_workers=2, dependencies="communicate", **pin)
    api.plan(Job(graph=GRAPH, model=ModelSpec(hidden_channels=8), pin=pins), cluster, tmp_path / "plan.json")
    return Plan.load(tmp_path / "plan.json")


def test_every_task_stands_in_the_table(tmp_path):
    """With what it does and what it makes, in 80 columns and without losing a letter of its name."""
    plan, out = planned(tmp_path), io.StringIO()
    Console(file=out, width=80).print(program_tables(plan))
    text = out.getvalue()
    assert "epochs play: train" in text
    assert "…" not in text
    for op in plan.cycle.cycle().programs["train"]:
        assert op.kind in text


def test_the_graph_has_every_operator_and_edge(tmp_path):
    """In Graphviz's language, with exchanges coloured."""
    cycle = planned(tmp_path).cycle.cycle()
    text = program_graph(cycle, "train")
    assert text.count("[label=") == len(cycle.programs["train"])
    assert "fillcolor" in text
    assert " -> " in text


def test_show_prints_and_writes(tmp_path, capsys):
    """The command line's verb, also as JSON."""
    planned(tmp_path)
    assert cli.main(["show", str(tmp_path / "plan.json"), "--dot", str(tmp_path / "p.dot")]) == 0
    assert "optimizer" in capsys.readouterr().out
    assert (tmp_path / "p.dot").read_text().startswith("digraph")
    assert cli.main(["show", str(tmp_path / "plan.json"), "--json"]) == 0
    assert '"programs"' in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"relu":true', '"relu":false'),  # another function
        ('"denominator":', '"denominator":1'),  # another loss
        ('"l1/filter":"multiply_first"', '"l1/filter":"aggregate_first"'),  # a decision that is not the program's
    ],
)
def test_an_edited_program_does_not_run(tmp_path, old, new):
    """What a plan says of its epoch is compared with what its decisions make of the graph."""
    planned(tmp_path)
    path = tmp_path / "plan.json"
    text = Plan.load(path).model_dump_json()
    assert old in text
    plan = Plan.model_validate_json(text.replace(old, new, 1))
    from gnnplan.planner.plan_files import load_partition

    with pytest.raises(UserError, match="make the plan again"):
        write_shards(plan, api.load_graph(GRAPH), load_partition(plan, path), tmp_path / "shards")

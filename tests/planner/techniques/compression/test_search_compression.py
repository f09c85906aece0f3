"""Compression is chosen over a narrow link, where a job allows it, and not over a fast one."""

from types import MappingProxyType

import pytest

from gnnplan.planner.cluster import resolve
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search.decide import decide
from gnnplan.planner.search.pins import check_techniques
from gnnplan.profiles.errors import UserError
from tests.planner.link_model import MBIT, LinkModel

GRAPH = SbmGraph(source="sbm", num_nodes=120, average_degree=8, num_features=64, num_classes=3)
PLAIN = dict.fromkeys(("replicas", "feature_slices", "first_aggregation", "direct_sum", "feature_cache"), False)
MODEL = ModelSpec(kind="gcn", num_layers=3, hidden_channels=64)


def found(folder, link_bytes_per_s, fidelity="approximate", techniques=MappingProxyType({}), **pins):
    """What is chosen of compression on two hosts."""
    model = LinkModel((1, 1), (link_bytes_per_s,) * 2, latency_s=1e-4)
    cluster = resolve(model.cluster(folder, model.profiles()))
    pin = PinnedDecisions(num_workers=2, prune="none", techniques={**PLAIN, **techniques}, **pins)
    job = Job(graph=GRAPH, model=MODEL, pin=pin, fidelity=fidelity)
    best = decide(job, cluster, generate_sbm(GRAPH)).best
    return best, best.choice("compression")


@pytest.mark.long
def test_it_is_chosen_where_bytes_take_longer_than_packing(tmp_path):
    """Over a narrow link; over a fast one the packing would take longer."""
    best, choice = found(tmp_path, MBIT)
    assert choice is not None
    assert best.epoch_s < 0.8 * found(tmp_path, MBIT, techniques={"compression": False})[0].epoch_s
    assert found(tmp_path, 1e5 * MBIT)[1] is None


@pytest.mark.long
def test_it_is_off_unless_a_job_allows_it(tmp_path):
    """Exact and stale jobs have none."""
    for fidelity in ("exact", "stale(2)"):
        assert found(tmp_path, MBIT, fidelity)[1] is None


def test_a_pinned_format_is_taken(tmp_path):
    """And refused where the job does not allow it, with the line to write."""
    _, choice = found(tmp_path, MBIT, decisions={"compression": {"format": "bfloat16"}})
    assert choice is not None
    assert choice.decision.format == "bfloat16"
    job = Job(graph=GRAPH, model=MODEL, pin={"decisions": {"compression": {"format": "int8"}}})
    with pytest.raises(UserError, match='write fidelity = "approximate"'):
        check_techniques(job)

"""Halves are chosen where they are faster and a job allows it, and refused where nobody can compute with them."""

from types import MappingProxyType

import pytest

from gnnplan.planner.cluster import resolve
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search.decide import decide
from gnnplan.profiles.errors import UserError
from tests.planner.link_model import MBIT, LinkModel

GRAPH = SbmGraph(source="sbm", num_nodes=300, average_degree=8, num_features=64, num_classes=3)
MODEL = ModelSpec(kind="gcn", num_layers=3, hidden_channels=64)
NAME = "half_precision"
OTHERS = ("replicas", "feature_slices", "direct_sum", "compression", "late_halos", "boundary_sampling")
TABLES = ("matmul_half_forward", "matmul_half_grad_input", "matmul_half_grad_weight", "spmm_half")


def profiles_with_halves(profiles, share, lacking=None):
    """CPUs whose products of halves take a share of the seconds."""
    found = []
    for profile in profiles:
        tables = dict(profile.operators)
        for table in TABLES:
            whole = tables[table.replace("_half", "")]
            points = tuple(p.model_copy(update={"median_s": share * p.median_s}) for p in whole.points)
            tables[table] = whole.model_copy(update={"points": points})
        tables.pop(lacking, None)
        found.append(profile.model_copy(update={"operators": tables, "device_kind": "cpu"}))
    return found


def found(folder, share=0.5, fidelity="approximate", techniques=MappingProxyType({}), lacking=None, cuda=False):
    """What is chosen of half precision on two hosts."""
    model = LinkModel((1, 1), (1e3 * MBIT,) * 2, latency_s=1e-4)
    profiles = profiles_with_halves(model.profiles(), share, lacking)
    if cuda:
        profiles = [each.model_copy(update={"device_kind": "cuda"}) for each in profiles]
    cluster = resolve(model.cluster(folder, profiles))
    pin = PinnedDecisions(num_workers=2, prune="none", techniques=dict.fromkeys(OTHERS, False) | dict(techniques))
    job = Job(graph=GRAPH, model=MODEL, pin=pin, fidelity=fidelity)
    best = decide(job, cluster, generate_sbm(GRAPH)).best
    return best, best.choice(NAME)


@pytest.mark.long
def test_they_are_chosen_where_they_are_faster(tmp_path):
    """By their own tables and by half the bytes; not where their products take ten times as long."""
    best, choice = found(tmp_path)
    assert choice is not None
    assert best.epoch_s < found(tmp_path, techniques={NAME: False})[0].epoch_s
    assert found(tmp_path, share=10.0)[1] is None


@pytest.mark.long
def test_they_are_off_unless_a_job_allows_it(tmp_path):
    """Exact and stale jobs have none."""
    for fidelity in ("exact", "stale(2)"):
        assert found(tmp_path, fidelity=fidelity)[1] is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"cuda": True}, "rows of two bytes are computed with by CPUs alone so far, and .* is a GPU"),
        ({"lacking": "spmm_half"}, "has no spmm_half; profile again"),
    ],
)
def test_where_nobody_can_compute_with_them_they_are_refused(tmp_path, how, words):
    """In a line where they were asked for; else the search leaves them out."""
    assert found(tmp_path, **how)[1] is None
    with pytest.raises(UserError, match=f"pin.techniques.half_precision: .*{words}"):
        found(tmp_path, techniques={NAME: True}, **how)

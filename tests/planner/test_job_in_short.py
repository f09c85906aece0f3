"""Three lines are a job: what they stand for, and what they must not hide."""

import pytest

from gnnplan.planner.job import Job
from gnnplan.profiles.errors import UserError

SHORT = 'graph = "{graph}"\nmodel = "sage"\nepochs = 7\n'


def job_of(tmp_path, text):
    """The job of a file."""
    path = tmp_path / "job.toml"
    path.write_text(text)
    return Job.load(path)


def test_three_lines_are_a_job(tmp_path):
    """All else has the defaults that the long form has."""
    job = job_of(tmp_path, SHORT.format(graph="sbm"))
    long = 'schema_version = 1\n[graph]\nsource = "sbm"\n[model]\nkind = "sage"\n[training]\nepochs = 7\n'
    assert job == job_of(tmp_path, long)


@pytest.mark.parametrize(
    ("graph", "source", "key"),
    [
        ("a/g.npz", "npz", "path"),
        ("g.pt", "pyg", "root"),
        ("g.csv", "edge_list", "path"),
        ("g.txt.gz", "edge_list", "path"),
        ("arxiv", "ogb", "path"),
    ],
)
def test_a_graph_is_known_by_its_name(graph, source, key, tmp_path):
    """Its path is taken from the job file's folder, as in the long form."""
    job = job_of(tmp_path, SHORT.format(graph=graph))
    assert job.graph.source == source
    assert getattr(job.graph, key) == tmp_path / graph


def test_short_and_long_forms_stand_beside_each_other(tmp_path):
    """Sections may say more than the short lines."""
    job = job_of(tmp_path, 'graph = "rmat"\nepochs = 7\n[training]\nlearning_rate = 0.5\n[model]\nnum_layers = 3\n')
    assert (job.training.epochs, job.training.learning_rate, job.model.num_layers) == (7, 0.5, 3)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (SHORT.format(graph="g.xlsx"), "graph: 'g.xlsx' is none that is known by its name"),
        (SHORT.format(graph="sbm") + "[training]\nepochs = 8\n", "epochs stands twice"),
        (SHORT.format(graph="sbm").replace("sage", "transformer"), "model.kind"),
        (SHORT.format(graph="sbm") + "speed = 3\n", "speed: unknown key"),
        ("", "schema_version is missing"),
    ],
)
def test_what_cannot_be_is_refused(text, wanted, tmp_path):
    """In one line that names the file."""
    with pytest.raises(UserError, match=wanted) as refused:
        job_of(tmp_path, text)
    assert str(tmp_path / "job.toml") in str(refused.value)

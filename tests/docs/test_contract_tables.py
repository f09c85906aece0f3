"""The reference of files, made from the models that read them."""

import sys

import pytest

from tests.docs.pages import ROOT

pytest.importorskip("sphinx", reason="the documentation's tools are not installed")
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
from contracts import _schemas, _section

JOB = "gnnplan.planner.job.Job"


def test_every_key_of_a_job_has_a_row():
    """Those of what it is made of too."""
    schemas = _schemas(JOB)
    for name, schema in schemas.items():
        rows = "\n".join(_section(name, schema, schemas))
        for key in set(schema["properties"]) - {"kind"}:
            assert f"| `{key}` |" in rows


def test_rows_say_values_defaults_and_meaning():
    """As the class says them, and links lead to tables that are there."""
    schemas = _schemas(JOB)
    training = "\n".join(_section("TrainingSpec", schemas["TrainingSpec"], schemas))
    assert "| `epochs` | whole number ≥ 1, ≤ 1e+06 | `100` |" in training
    assert "| `schedule` | `constant`, `linear`, `cosine`, `step`, `multistep`, `exponential`, `plateau` |" in training
    assert "epochs whose tasks are measured one by one, spread over the run." in training
    assert "[NpzGraph](#npzgraph)" in "\n".join(_section("Job", schemas["Job"], schemas))


def test_a_file_has_to_say_its_version():
    """The one that is read, not the default of the class."""
    schemas = _schemas("gnnplan.planner.plan.Plan")
    assert "| `schema_version` | `2` | needed |" in "\n".join(_section("Plan", schemas["Plan"], schemas))

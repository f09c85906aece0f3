"""One package is installed, `gnnplan`, and it takes no other name."""

import importlib.metadata
import json
import subprocess
import sys

import pytest

import gnnplan

_PARTS = ("planner", "runtime", "profiles")


def imported_by(statement: str) -> set[str]:
    """Top-level names of what is imported in a fresh interpreter after a statement."""
    body = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, check=True, timeout=120)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_the_package_alone_imports_nothing_heavy():
    """Who asks for the version waits for nothing."""
    found = imported_by("import gnnplan")
    assert "gnnplan" in found
    assert not found & {"torch", "numpy", "scipy", "pydantic", "numba", *_PARTS}


def test_the_version_is_that_of_what_is_installed():
    """It stands in one place, pyproject.toml."""
    assert gnnplan.__version__ == importlib.metadata.version("gnnplan")


@pytest.mark.long
def test_modules_import_under_their_full_names_only():
    """A module that was imported under a short name too would be there twice, each with classes of its own."""
    found = imported_by(
        "import gnnplan.planner.api, gnnplan.planner.commands, gnnplan.profiles.worker\n"
        "import gnnplan.runtime.worker, gnnplan.runtime.mini_batch.measure"
    )
    assert {"gnnplan", "torch", "pydantic"} <= found
    assert not found & set(_PARTS)

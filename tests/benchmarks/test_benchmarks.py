"""The benchmarks' command line, and the benchmark that proves exactness in its quick form."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def benchmark(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=170
    )


@pytest.mark.distributed
def test_quick_exactness_holds():
    """All quick cases agree with one PyG process to 1e-5; the last line of the output is the result as JSON."""
    done = benchmark("exactness", "--quick")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["benchmark"] == "exactness"
    assert result["cases"] == len(result["rows"]) > 20
    assert {row["model"] for row in result["rows"]} == {"gcn", "sage", "gat", "gin", "tagcn"}
    assert 0 < result["max_rel_l2"] <= 1e-5


def test_unknown_benchmark_is_refused():
    """A name that does not exist ends with argparse's error, which lists those that do."""
    done = benchmark("no-such-benchmark")
    assert done.returncode == 2
    assert "invalid choice: 'no-such-benchmark'" in done.stderr
    assert "exactness" in done.stderr
    assert "_common" not in done.stderr

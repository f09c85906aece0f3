"""How nearly our loader stands in for PyG's: keywords, examples that run, batches a second.

`keywords` counts those of PyG's `NeighborLoader` and the classes below it, `unsupported` those that ask for what is
not there. `examples_run` counts loops in the manner of PyG's examples that run with the import changed alone: the
tests of `tests/runtime/sampling/test_pyg_examples.py`, of which `refused_by_name` have to be refused. The speed is
that of the benchmark `loader`. PyG samples with pyg-lib or torch-sparse, and not at all without them: then
`speedup_over_pyg` is the one that `loader` has kept, of the day `speed_date`; None in the quick form, or where it has
kept none.
"""

from __future__ import annotations

import re
import subprocess
import sys

from benchmarks import loader
from benchmarks._common import ROOT
from benchmarks._results import kept, today
from gnnplan.profiles.errors import RunFailedError, UserError
from gnnplan.runtime.sampling.keywords import KEYWORDS

EXAMPLES = "tests/runtime/sampling/test_pyg_examples.py"
_TIMEOUT_S = 600.0


def main(quick: bool) -> dict:
    """Keywords, examples, speed."""
    status = [each.status for each in KEYWORDS.values()]
    passed = _passed()
    refused = {name for name in passed if "refused" in name}
    return {
        "keywords": len(status),
        "unsupported": status.count("refused"),
        "without_effect": status.count("changes nothing"),
        "examples_run": len(passed - refused),
        "refused_by_name": len(refused),
        **_speed(quick),
    }


def _passed() -> set[str]:
    """Names of the examples that ran to their ends; `RunFailedError` where one did not."""
    command = [sys.executable, "-m", "pytest", "-rp", "-p", "no:cacheprovider", "--tb=line", EXAMPLES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_TIMEOUT_S)
    if done.returncode:
        raise RunFailedError(f"an example does not run: {done.stdout.strip().splitlines()[-1]}")
    return set(re.findall(r"^PASSED \S+::test_(\w+)", done.stdout, re.MULTILINE))


def _speed(quick: bool) -> dict:
    """Over PyG's own loader, in the geometric mean of the settings of the benchmark `loader`."""
    try:
        result = loader.main(quick) | {"date": today()}
    except UserError as error:
        result = {} if quick else kept("loader")
        if not result:
            return {"speedup_over_pyg": None, "pyg_backend": str(error)}
    figures = {name: result[name] for name in ("speedup_over_pyg", "speedup_by_fan_outs", "pyg_backend")}
    return {**figures, "speed_date": result["date"]}

"""What a worker of full-batch training imports: every process of a run pays for it, in seconds and in bytes."""

import subprocess
import sys

import pytest

HEAVY = ("torch_geometric", "torch._dynamo", "scipy.stats", "pandas", "sympy", "matplotlib", "rich", "numba")
CODE = f"""
import sys
import gnnplan.runtime.worker
from gnnplan.planner.techniques.registry import alone, techniques
import torch
from gnnplan.profiles.kernels.optimizer_step import adam_step
techniques(), alone()
adam_step(*([torch.zeros(2)] for _ in range(4)), [torch.tensor(0.0)], rate=0.1)
print([name for name in {HEAVY} if name in sys.modules])
"""


@pytest.mark.long
def test_a_worker_imports_no_more_than_it_needs():
    """Not PyG, nor torch's compiler, nor numba, also once it has made a step."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr

"""Before anything is imported: how threads wait, and that Triton's kernels are interpreted where there is no GPU."""

import gc
import os
import sys

# A thread of OpenMP that waits for its next loop turns in circles, and takes the core from a test beside it. Small
# loops on two threads took a hundred times the processor time of one. It is read when torch loads OpenMP.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numba
import torch
from hypothesis import settings

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported, which PyG does

# Numba sets the number of OpenMP's threads when it starts its own, and torch shares OpenMP: first the one, then the
# other. Numba keeps its threads, for its kernels have other code for several; matrices of tests are too small for two.
numba.get_num_threads()  # starts them
torch.set_num_threads(1)

# From a checkout these would import too, and what a test patches by such a name would be another module than ours.
sys.modules.update(dict.fromkeys(("planner", "runtime", "profiles")))

# No test is timed: machines are shared. What lands is judged by the same draws each time; elsewhere they are new ones.
settings.register_profile("unhurried", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "unhurried"))


def pytest_collection_modifyitems(items):
    """Files whose tests start workers come first: they take longest, and nobody shall be left alone with one."""
    slow = {item.path for item in items if item.get_closest_marker("distributed")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish():
    """What is imported by now stays: no collection of garbage need look through it, which takes tenths of a second."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    """At the interpreter's end it goes too; Triton complains of what does not."""
    gc.unfreeze()

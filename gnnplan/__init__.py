"""gnnplan measures machines, predicts how a graph neural network would train on them, picks the best plan and runs it.

    import gnnplan
    gnnplan.train({"graph": "my_graph.npz", "model": "gcn", "epochs": 100})

The verbs are those of the command line; each takes files or objects. They are imported when first used, so that
`import gnnplan` takes no time. The planner is `gnnplan.planner`, what trains is `gnnplan.runtime`, what machines can do
is `gnnplan.profiles`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnnplan.planner.api import (
        calibrate,
        choices,
        compare,
        diff,
        explain,
        load_graph,
        pilot,
        plan,
        prepare_run,
        report,
        run,
        simulate,
        statistics,
        train,
        whatif,
    )
    from gnnplan.planner.api import profile_machine as profile
    from gnnplan.planner.cluster import Cluster
    from gnnplan.planner.infer_verb import infer
    from gnnplan.planner.job import Job
    from gnnplan.planner.plan import Plan
    from gnnplan.planner.trace import Trace
    from gnnplan.profiles.machine import MachineProfile

    __version__: str

__all__ = [
    "Cluster",
    "Job",
    "MachineProfile",
    "Plan",
    "Trace",
    "calibrate",
    "choices",
    "compare",
    "diff",
    "explain",
    "infer",
    "load_graph",
    "pilot",
    "plan",
    "prepare_run",
    "profile",
    "report",
    "run",
    "simulate",
    "statistics",
    "train",
    "whatif",
]

_ELSEWHERE = {
    "Cluster": "gnnplan.planner.cluster",
    "Job": "gnnplan.planner.job",
    "MachineProfile": "gnnplan.profiles.machine",
    "Plan": "gnnplan.planner.plan",
    "Trace": "gnnplan.planner.trace",
    "infer": "gnnplan.planner.infer_verb",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in __all__:
        raise AttributeError(f"module 'gnnplan' has no attribute {name!r}")
    module = import_module(_ELSEWHERE.get(name, "gnnplan.planner.api"))
    return getattr(module, "profile_machine" if name == "profile" else name)


def _version() -> str:
    from importlib import metadata  # takes longer than all else here

    try:
        return metadata.version("gnnplan")
    except metadata.PackageNotFoundError:  # a checkout on the path that nobody installed
        return "unknown"


def __dir__() -> list[str]:
    """The verbs and contracts, and the three packages below; none of what this file imports."""
    dunders = {name for name in globals() if name.startswith("__")}
    return sorted({*__all__, *dunders, "__version__", "planner", "profiles", "runtime"})

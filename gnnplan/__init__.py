"""gnnplan measures machines, predicts how a graph neural network would train on them, picks the best plan and runs it.

The planner is `gnnplan.planner`, what trains is `gnnplan.runtime`, what machines can do is `gnnplan.profiles`.
"""

from importlib import metadata

try:
    __version__ = metadata.version("gnnplan")
except metadata.PackageNotFoundError:  # a checkout on the path that nobody installed
    __version__ = "unknown"

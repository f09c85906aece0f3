"""What workers import soon after they have begun: techniques, and where there is no CUDA what compiles their loops.

An agent imports this module once for all workers of a host (`gnnplan.profiles.agent`).
"""

import torch

from gnnplan.planner.techniques.registry import techniques

techniques()
if torch.version.cuda is None:
    from numba.core.registry import cpu_target

    # The first loop would do it, in half a second. Loops themselves begin threads, and are left to the workers.
    cpu_target.target_context.refresh()

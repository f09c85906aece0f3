"""`python -m gnnplan.planner.emulation.reaper ID FOLDER`: takes an emulation down when its owner is gone.

It waits on a pipe from the owner. The pipe closes when the owner ends, however it ends, so nothing
stays behind even when the owner is killed. FOLDER is the emulation's own, and removed with it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from gnnplan.planner.emulation.kernel import take_down
from gnnplan.profiles.errors import RunFailedError, UserError


def main() -> None:
    """Waits for the owner's end, then cleans up."""
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, signal.SIG_IGN)
    emulation, folder = sys.argv[1:]
    while os.read(sys.stdin.fileno(), 1):
        pass
    try:
        take_down(emulation, Path(folder))
    except (RunFailedError, UserError) as error:
        sys.exit(f"gnnplan: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()

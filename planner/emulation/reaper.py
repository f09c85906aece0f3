"""`python -m planner.emulation.reaper ID`: takes an emulation down when its owner is gone.

It waits on a pipe from the owner. The pipe closes when the owner ends, however it ends, so nothing
stays behind even when the owner is killed.
"""

from __future__ import annotations

import os
import signal
import sys

from planner.emulation.kernel import take_down


def main() -> None:
    """Waits for the owner's end, then cleans up."""
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, signal.SIG_IGN)
    emulation = sys.argv[1]
    while os.read(sys.stdin.fileno(), 1):
        pass
    take_down(emulation)


if __name__ == "__main__":
    main()

"""Whether the memory that workers of a host shared is gone."""

import time
from pathlib import Path

from gnnplan.runtime.execution.peers import REGION_NAME


def no_region_is_left(folder, within_s=20.0):
    """Whether no process of a run has a region in its memory, nor any file is one; killed ones take a moment to end."""
    end_s = time.monotonic() + within_s
    while found := regions_held(folder):
        if time.monotonic() > end_s:
            raise AssertionError(found)
        time.sleep(0.05)
    return True


def regions_held(folder):
    """Processes whose command names the folder and that have a region in their memory, and files of one."""
    held = []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            is_of_run = str(folder).encode() in (maps.parent / "cmdline").read_bytes()
            held += [str(maps)] if is_of_run and REGION_NAME in maps.read_text() else []
        except OSError:
            continue
    return held + [str(path) for folder in ("/dev/shm", "/tmp") for path in Path(folder).glob(f"*{REGION_NAME}*")]

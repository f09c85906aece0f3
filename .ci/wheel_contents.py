"""Compares a wheel with the checkout: every module and every data file of the package, and nothing else.

python .ci/wheel_contents.py gnnplan-0.1.0-py3-none-any.whl
"""

import subprocess
import sys
import zipfile

PARTS = ("planner", "profiles", "runtime")
DATA = ("gnnplan/py.typed", "gnnplan/profiles/catalog/devices.toml")


def tracked() -> set[str]:
    """Paths in the package of the modules that git knows."""
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True, timeout=60).stdout
    paths = [path for path in listed.split("\0") if path.endswith(".py")]
    own = {path for path in paths if path.startswith("gnnplan/")}
    return own | {f"gnnplan/{path}" for path in paths if path.split("/")[0] in PARTS}


def faults(names: set[str]) -> list[str]:
    """What the wheel lacks, and what it has that is not the package's."""
    wanted = tracked() | set(DATA)
    packaged = {name for name in names if ".dist-info/" not in name}
    lacking = [f"lacks {name}" for name in sorted(wanted - packaged)]
    lacking += [] if any(name.endswith("/LICENSE") for name in names) else ["lacks LICENSE"]
    strange = [f"has {name}" for name in sorted(packaged - wanted) if not name.startswith("gnnplan/profiles/catalog/")]
    return lacking + strange


def main() -> int:
    """Prints the faults; returns the exit code."""
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        found = faults(set(wheel.namelist()))
    for fault in found:
        print(f"{sys.argv[1]}: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

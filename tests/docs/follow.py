"""A stranger: does in a clean folder what README and tutorials say, in order, and names the line that fails.

python -m tests.docs.follow                       # installs as the README says, then everything
python -m tests.docs.follow --venv .venv          # with an environment that is there already
python -m tests.docs.follow --venv .venv README.md     # a tutorial may read what a page before it wrote
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import PAGES, ROOT, Step, steps

_SHELL = '{command}\n__code=$?\nenv -0 > "{state}/env"\npwd > "{state}/pwd"\nexit $__code\n'
_TAIL_LINES = 25


@dataclass
class Failure(Exception):
    """A step that failed: where, how, and the last lines that it printed."""

    step: Step
    reason: str
    output: str

    def __str__(self) -> str:
        shown = self.step.command or f"save {self.step.file}"
        return f"{self.step.where}: {self.reason}\n  {shown}\n{self.output}"


class Reader:
    """Somebody at a shell, whose folder and environment last from one command to the next.

    Args:
        folder: where the first command is typed.
        environment: variables of the first command.
        timeout_s: the longest that one command may take.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], timeout_s: float) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._timeout_s = timeout_s

    def do(self, step: Step) -> None:
        """Saves the file or runs the command; `Failure` where that does not go well."""
        if step.file:
            (self._folder / step.file).write_text(step.text, encoding="utf-8")
        else:
            self._run(step)

    def _run(self, step: Step) -> None:
        with tempfile.TemporaryDirectory() as state:
            code, output = self._typed(_SHELL.format(command=step.command, state=state))
            if code != 0:
                reason = f"took longer than {self._timeout_s:g} s" if code is None else f"ended with exit code {code}"
                raise Failure(step, reason, "\n".join(output.splitlines()[-_TAIL_LINES:]))
            self._folder = Path((Path(state) / "pwd").read_text().strip())
            pairs = (Path(state) / "env").read_text().split("\0")
            self._environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)

    def _typed(self, script: str) -> tuple[int | None, str]:
        """Exit code and output of a script; the code is None where it ran out of time and was ended."""
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = shell.communicate(timeout=self._timeout_s)
            return shell.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            return None, shell.communicate()[0]


def clean_copy(folder: Path, venv: Path | None) -> Path:
    """The files that git knows, in a folder of their own; programs of `venv` stand for what `make install` installs."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    for name in filter(None, listed.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    if venv:
        (folder / ".venv").mkdir()
        (folder / ".venv" / "bin").symlink_to((venv / "bin").resolve())
        (folder / ".venv" / ".installed").touch()
    return folder


def follow(page: str, reader: Reader) -> None:
    """Does what a page says, and prints how long each step took; `Failure` at the first that does not go well."""
    for step in steps(page):
        begin_s = time.monotonic()
        reader.do(step)
        print(f"{time.monotonic() - begin_s:6.1f} s  {step.where}  {step.command or step.file}", flush=True)


def main() -> int:
    """Follows the pages; returns 1 where a step fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", default=PAGES)
    parser.add_argument("--venv", type=Path, help="an environment with gnnplan's dependencies, in place of a new one")
    parser.add_argument("--timeout", type=float, default=900.0, help="longest that one command may take, seconds")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stranger-") as name:
        folder = clean_copy(Path(name), asked.venv)
        environment = {**os.environ, **({"PYTHONPATH": name} if asked.venv else {})}
        try:
            for page in asked.pages:
                follow(page, Reader(folder, environment, asked.timeout))
        except Failure as failure:
            print(failure, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

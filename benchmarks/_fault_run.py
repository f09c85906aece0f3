"""`python -m benchmarks._fault_run ...`: `gnnplan ...`, which also prints every event of its workers as it comes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gnnplan.planner import commands
from gnnplan.planner.cli import main
from gnnplan.planner.report.progress import event_words


@contextmanager
def _printing(*_: object) -> Iterator[Callable[[dict[str, Any]], None]]:
    """In place of the bar."""

    def on_event(event: dict[str, Any]) -> None:
        print(json.dumps(event), flush=True)
        if words := event_words(event):
            print(words, file=sys.stderr, flush=True)

    print(json.dumps({"event": "start"}), flush=True)
    yield on_event


if __name__ == "__main__":
    commands.epochs_bar = _printing
    sys.exit(main(sys.argv[1:]))

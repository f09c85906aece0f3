"""Workers of a test's own."""

import os
from pathlib import Path

from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.errors import RunFailedError, UserError
from gnnplan.profiles.launch import launch

ROOT = Path(__file__).parents[2]


def launched(module, source, folder, how, num_workers=3, *, launch=launch):
    """Runs the source as `module` with `folder how`; returns its events by rank, and the error that ended it.

    Args:
        launch: starts the workers: through torchrun, or warm.
    """
    (folder / f"{module}.py").write_text(source)
    events, error = [], None
    paths = [str(folder), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        launch(
            module,
            [str(folder), how],
            hosts=[HostGroup(num_workers)],
            folder=folder,
            on_event=events.append,
            environment={"PYTHONPATH": os.pathsep.join(paths)},
        )
    except (RunFailedError, UserError) as failure:
        error = str(failure)
    return sorted(events, key=lambda event: event["rank"]), error

"""The most that documents and arguments may ask for, with the reason.

A count without a bound hangs, or takes all memory, before anything is trained. Every limit lies far beyond what has
been tried, and where one is met the message names the field and the limit.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

MAX_DOCUMENT_BYTES = 256 * 2**20  # a plan of MAX_WORKERS; decoding takes some ten times as much memory
MAX_TOML_BYTES = 4 * 2**20  # which people write; its decoder reads about 1 MB a second
MAX_WORKERS = 4096  # an exchange has a count for every two of them, 128 MiB in all
MAX_VERTICES = 2**31 - 1  # ids are int32
MAX_EDGES = 2**40
MAX_WIDTH = 2**24  # columns: with MAX_VERTICES rows of them bytes still fit int64
MAX_PARAMETERS = 2**29  # of a model, whose gradients stand in one row; of MAX_VERTICES rows too bytes fit int64
MAX_LEVELS = 256  # aggregations one after the other: each is some ten operators of a program
MAX_EPOCHS = 1_000_000  # each has a loss in the trace, and where it is scripted its own weather
MAX_ORDER = 10_000  # epochs until programs come again: a plan names the program of each
MAX_BYTES = 2**53  # what a JSON number holds exactly
MAX_SECONDS = 1e6  # a task of eleven days; the simulator's clock counts 292 years in nanoseconds
MAX_TRAINING_SECONDS = MAX_SECONDS * MAX_EPOCHS  # of all epochs
MAX_RATE = 1e15  # bytes a second: a thousand times the memory of today's devices
MAX_KEPT = 1000  # checkpoints of a run: each is a folder
MAX_RESTARTS = 1000  # of a run that loses workers
MAX_REPLICAS = 1_000_000  # of an epoch: the 95th percentile is known to 0.1% long before

Vertices = Annotated[int, Field(ge=1, le=MAX_VERTICES)]
Edges = Annotated[int, Field(ge=1, le=MAX_EDGES)]
Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]
Workers = Annotated[int, Field(ge=1, le=MAX_WORKERS)]
Levels = Annotated[int, Field(ge=1, le=MAX_LEVELS)]
Epochs = Annotated[int, Field(ge=1, le=MAX_EPOCHS)]
Bytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]
SomeBytes = Annotated[int, Field(ge=1, le=MAX_BYTES)]
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS)]
SomeSeconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]
TrainingSeconds = Annotated[float, Field(gt=0, le=MAX_TRAINING_SECONDS)]
Rate = Annotated[float, Field(ge=1, le=MAX_RATE)]


def _bare(name: str) -> str:
    """What is a file's name in any folder, and never a path out of it."""
    if name in (".", "..") or re.search(r"[/\\\x00-\x1f\x7f]", name) or len(name.encode()) > 200:
        raise ValueError("must be a bare name: no path, no control characters, at most 200 bytes")
    return name


def _host(name: str) -> str:
    """What a shell and torchrun read as one word."""
    if not re.fullmatch(r"\w[\w.:-]*", name):
        raise ValueError("must be letters, digits, and . _ : - between them")
    return _bare(name)


BareName = Annotated[str, AfterValidator(_bare)]
HostName = Annotated[str, AfterValidator(_host)]

"""Every keyword of PyG's `NeighborLoader`, and what becomes of it here; the table in the docs is made of this.

`python -m gnnplan.runtime.sampling.keywords` writes the table into `docs/loader.md`; with `--check` it only says
whether it is current.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from gnnplan.profiles.errors import UserError

BEGIN, END = "<!-- keywords: begin -->", "<!-- keywords: end -->"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "loader.md"


@dataclass(frozen=True)
class Keyword:
    """One keyword.

    Args:
        status: `taken`: it does what it does in PyG; `changes nothing`: any value is taken; `refused`: but for a value
            that asks for nothing.
        words: what differs, or why it is refused.
        nothing: the value that asks for nothing, beside None.
    """

    status: Literal["taken", "changes nothing", "refused"]
    words: str = ""
    nothing: object = None


_TAKEN, _NO_EFFECT = Keyword("taken"), Keyword("changes nothing")
_TEMPORAL = "temporal sampling: neighbours would have to be older than a seed"
KEYWORDS: dict[str, Keyword] = {
    "data": Keyword("taken", "one homogeneous `Data`; `HeteroData` and remote stores are refused"),
    "num_neighbors": Keyword("taken", "a list; a dict by kinds of edges is refused"),
    "input_nodes": Keyword("taken", "ids, a mask or None; those by kinds of vertices is refused"),
    "input_time": Keyword("refused", _TEMPORAL),
    "replace": _TAKEN,
    "subgraph_type": _TAKEN,
    "disjoint": _TAKEN,
    "temporal_strategy": Keyword("refused", _TEMPORAL, "uniform"),
    "time_attr": Keyword("refused", _TEMPORAL),
    "weight_attr": _TAKEN,
    "transform": Keyword("taken", "called where the batch is taken, or with `filter_per_worker=True` in its thread"),
    "transform_sampler_output": Keyword("refused", "batches are made in one piece; use `transform`"),
    "is_sorted": _NO_EFFECT,
    "filter_per_worker": Keyword("taken", "says where `transform` is called"),
    "neighbor_sampler": Keyword("refused", "this loader is a sampler of its own"),
    "directed": Keyword("taken", 'False is `subgraph_type="induced"`'),
    "custom_cls": Keyword("refused", "it belongs to remote stores"),
    "input_id": _TAKEN,
    "batch_size": _TAKEN,
    "shuffle": Keyword("taken", "seeds come in the order in which PyG's come, by the same `torch.manual_seed`"),
    "sampler": _TAKEN,
    "batch_sampler": _TAKEN,
    "num_workers": Keyword("taken", "threads, which share the graph, in place of processes"),
    "collate_fn": _NO_EFFECT,
    "dataset": _NO_EFFECT,
    "pin_memory": _TAKEN,
    "drop_last": _TAKEN,
    "timeout": _TAKEN,
    "worker_init_fn": Keyword("taken", "called in each thread, which shares its random numbers with the others"),
    "multiprocessing_context": _NO_EFFECT,
    "generator": _TAKEN,
    "prefetch_factor": Keyword("taken", "None is 2"),
    "persistent_workers": _NO_EFFECT,
    "pin_memory_device": _NO_EFFECT,
    "in_order": Keyword("changes nothing", "batches are always in order"),
}


def check_others(given: Mapping[str, object], own: tuple[str, ...]) -> None:
    """`UserError` for a keyword that nobody knows, and for one of PyG's that asks for what is not there.

    Args:
        given: keywords that the loader has no argument for.
        own: the loader's own arguments, to guess what was meant.
    """
    for name, value in given.items():
        known = KEYWORDS.get(name)
        if known is None:
            near = get_close_matches(name, {*own, *KEYWORDS}, 1)
            meant = f"; did you mean {near[0]}?" if near else "; leave it out"
            raise UserError(f"NeighborLoader has no keyword {name}, and neither has PyG's{meant}")
        if known.status == "refused" and value is not None and value != known.nothing:
            shown = " ".join(repr(value).split())[:60]
            raise UserError(f"NeighborLoader does not support {name}={shown}: {known.words}; leave it out")


def table() -> str:
    """All keywords, as Markdown."""
    rows = [f"| `{name}` | {each.status} | {each.words} |" for name, each in KEYWORDS.items()]
    return "\n".join(["| keyword of PyG | here | |", "| --- | --- | --- |", *rows])


def written(page: str) -> str:
    """A page with the table between its markers."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"


def main(arguments: list[str] | None = None) -> int:
    """Writes the table; returns 1 where it is only checked and not current."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where the table is old")
    found = PAGE.read_text(encoding="utf-8")
    if parser.parse_args(arguments).check:
        return int(written(found) != found)
    PAGE.write_text(written(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

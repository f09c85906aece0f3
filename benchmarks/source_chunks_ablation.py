"""Chunks with and without the moving aggregate, beside neither: Emma's table 10, of accuracies.

"Nothing kept" has states that fade at once (`fade` and `mass_fade` of a millionth). What a target gathers in a step is
then its neighbours in the chunk alone, scaled as if they were all; a target with none of them there keeps what it had.
No second is measured: a state that fades costs what one that stays costs, and the paper finds no difference either.
Steps a second and memory beside exact training are in `source_chunks`.

The paper's GCN is a mean of the neighbours beside the row itself, which is our `sage`. All is of one seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from rich.console import Console
from rich.table import Table

from benchmarks._chunks_training import Setting, trained
from benchmarks._common import why_absent
from benchmarks._results import Parts

_FILE = "source_chunks_ablation"
_ROWS = (
    ("amazon_photo", "sage_3", 0.003),
    ("amazon_photo", "gat_3", 0.003),
    ("cora_ml", "sage_3", 0.003),
    ("cora_ml", "gat_3", 0.003),
    ("flickr7k", "sage_3", 0.003),
    ("flickr7k", "wide_gat_3", 0.005),
)
_FORGETS = (("fade", 1e-6), ("mass_fade", 1e-6))
_KEPT_OF_ATTENTION = (("mass_fade", 0.5),)  # next to nothing is kept by default
_PUBLISHED = (("follow_mean", False), ("mass_fade", 1.0))
PAPER = {
    "sage": {"kept_over_nothing": (0.96, 0.18, 0.85), "kept_over_exact": (-0.27, 0.03, 1.05)},
    "gat": {"kept_over_nothing": (0.32, 3.09, 6.12), "kept_over_exact": (-0.30, 0.80, 4.65)},
}
"""Points of accuracy on Products, Reddit and Yelp: with both less chunks alone, and less neither."""


def settings_of(quick: bool) -> Iterator[Setting]:
    """Every row, whether its graph is here or not."""
    steps, num_chunks = (20, 4) if quick else (150, 10)
    variants = (
        ("exact", (("num_chunks", 1),)),
        ("kept", (("num_chunks", num_chunks),)),
        ("kept, as published", (("num_chunks", num_chunks), *_PUBLISHED)),
        ("nothing kept", (("num_chunks", num_chunks), *_FORGETS)),
    )
    rows = (("small", "sage_3", 0.01),) if quick else _ROWS
    found = (Setting(graph, model, steps, rate, True, variants) for graph, model, rate in rows)
    return (_with_masses_kept(each) if each.is_of_attention else each for each in found)


def _with_masses_kept(of: Setting) -> Setting:
    kept = (
        ("kept", (*fields, *_KEPT_OF_ATTENTION)) if name == "kept" else (name, fields) for name, fields in of.variants
    )
    return replace(of, variants=tuple(kept))


def main(quick: bool) -> dict:
    """Runs the rows that are not kept; the quick form keeps nothing."""
    settings = {each.name: each for each in settings_of(quick)}
    absent = {name: reason for name, of in settings.items() if (reason := why_absent(name, of.graph))}
    prints = {name: of.fingerprint() for name, of in settings.items() if name not in absent}
    parts = Parts(_FILE, {"rows": prints}, summary, is_kept=not quick)
    for name in prints:
        parts.add("rows", name, partial(_row, settings[name]))
    record = {**parts.record(), "skipped": list(absent.values())}
    _show(record["rows"])
    return record


def _row(of: Setting) -> dict:
    return {"variants": trained(of)}


def summary(parts: Mapping[str, Mapping[str, dict]]) -> dict:
    """Points of accuracy that each idea gains, beside the paper's."""
    rows = parts["rows"].values()
    return {
        "kept_over_nothing_points": {row["part"]: _gained(row, "kept", "nothing kept") for row in rows},
        "kept_over_exact_points": {row["part"]: _gained(row, "kept", "exact") for row in rows},
        "paper_points": PAPER,
    }


def _gained(row: dict, variant: str, over: str) -> float:
    return 100 * (_test(row, variant) - _test(row, over))


def _test(row: dict, variant: str) -> float:
    return next(each["test"] for each in row["variants"] if each["variant"] == variant)


def _show(rows: list[dict]) -> None:
    table = Table(title="test accuracy at the best validation", expand=True)
    names = [each["variant"] for each in rows[0]["variants"]] if rows else []
    table.add_column("row")
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(row["part"], *(f"{each['test']:.1%}" for each in row["variants"]))
    Console(width=120).print(table)

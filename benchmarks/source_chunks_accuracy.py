"""Accuracy by chunks of the source vertices, of models with a LayerNorm at each layer; no second is measured.

One process plays the programs of one worker on the kernels that plans run on. More workers have the same numbers
(`tests/planner/techniques/source_chunks/`), so these are also those of 1 to 8 parts. All variants of a row take as many
steps, evaluate as often, and begin with the same weights. Layers but those of attention sum before they multiply, so
that no state holds products of older weights; one row multiplies first, to show what that costs. A figure is the test
accuracy at the best validation. A row is kept when it has ended, and is not run again under the same settings.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks._chunks_training import Setting, trained
from benchmarks._common import why_absent
from benchmarks._results import about, keep, kept_parts, record_of

_FILE = "source_chunks_accuracy"
_PUBLISHED = "as published"
_FADE = 0.5


def _variants(*counts: int, of_attention: bool = False) -> tuple[tuple[str, tuple[tuple[str, float], ...]], ...]:
    plain = tuple((f"B = {count}", (("num_chunks", count),)) for count in counts)
    anew = tuple((f"B = {n}, anew every B passes", (("num_chunks", n), ("exact_every", n))) for n in counts if n == 10)
    published = (("follow_mean", False), ("mass_fade", 1.0))
    resting = tuple((f"B = {n}, {_PUBLISHED}", (("num_chunks", n), *published)) for n in counts if n in (2, 5, 10))
    other, words = (("mass_fade", 1.0), "masses do not fade") if of_attention else (("fade", _FADE), "states fade")
    fading = tuple((f"B = {n}, {words}", (("num_chunks", n), other)) for n in counts if n in (5, 10, 20))
    return (*plain, *fading, *anew, *resting)


_ROWS = (
    ("amazon_photo", "sage_3"),
    ("amazon_photo", "gcn_3"),
    ("amazon_photo", "gat_3"),
    ("cora_ml", "gat_3"),
    ("cora_ml", "sage_3"),
    ("cora_ml", "gcn_3"),
    ("facebook_page_page", "sage_3"),
    ("fb100_cornell5", "sage_3"),
    ("fb100_cornell5", "gcn_3"),
    ("flickr7k", "sage_3"),
)


def settings_of(quick: bool) -> list[Setting]:
    """Every row, whether its graph is here or not."""
    if quick:
        return [Setting("small", "sage_3", 20, 0.01, True, _variants(1, 2, 10))]
    counts = 1, 2, 5, 10, 20
    of_rows = ((graph, model, _variants(*counts, of_attention=model == "gat_3")) for graph, model in _ROWS)
    return [
        Setting("amazon_photo", "sage_3", 150, 0.003, False, _variants(*counts)),
        *(Setting(graph, model, 150, 0.003, True, variants) for graph, model, variants in of_rows),
    ]


def main(quick: bool) -> dict:
    """Runs the rows that are not kept; the quick form keeps nothing."""
    rows = {each.name: each for each in settings_of(quick) if not why_absent(each.name, each.graph)}
    prints = {name: row.fingerprint() for name, row in rows.items()}
    results = {} if quick else kept_parts(_FILE, "rows", "row", prints)
    for name, row in rows.items():
        if name not in results:
            results[name] = {"row": name, "settings": prints[name], **about(), "variants": trained(row)}
            if not quick:
                keep(_FILE, record_of(_FILE, _summary(results)))
    _show(results)
    return _summary(results)


def _summary(results: dict[str, dict]) -> dict:
    gaps: dict[str, list[float]] = {}
    for result in results.values():
        exact, *others = result["variants"]
        for each in others:
            gaps.setdefault(each["variant"], []).append(100 * (exact["test"] - each["test"]))
    worst = {name: max(each) for name, each in gaps.items()}
    of_sage = [
        (each["variant"], 100 * (result["variants"][0]["test"] - each["test"]))
        for name, result in results.items()
        if name.startswith("sage")
        for each in result["variants"][1:]
    ]
    return {
        "graphs": len(results),
        "worst_accuracy_gap_pct": worst,
        "worst_sage_gap_pct": max(gap for name, gap in of_sage if "," not in name),
        "worst_published_sage_gap_pct": max((gap for name, gap in of_sage if name.endswith(_PUBLISHED)), default=None),
        "rows": list(results.values()),
    }


def _show(results: dict[str, dict]) -> None:
    table = Table(title="test accuracy at the best validation, and the step of it")
    for column in ("row", "variant", "test", "step"):
        table.add_column(column, justify="left" if column in ("row", "variant") else "right")
    for result in results.values():
        for each in result["variants"]:
            step = max(each["curve"], key=lambda at: at["val"])["step"]
            table.add_row(result["row"], each["variant"], f"{each['test']:.1%}", str(step))
    Console(width=120).print(table)

"""Writes the tables of `docs/techniques.md`: what there is, and what combines with what.

`python -m gnnplan.planner.composition.table` writes them; with `--check` it only says whether they are current.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

from gnnplan.planner.composition.refusals import needed_beside, refusals
from gnnplan.planner.contracts.technique import LAYOUT, AnyTechnique, Choice
from gnnplan.planner.fidelity import ANY
from gnnplan.planner.techniques.registry import ours
from gnnplan.profiles.errors import UserError

BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "techniques.md"


def tables() -> str:
    """All tables, as Markdown."""
    known = list(ours().values())
    return "\n".join([*_described(known), "", "## What combines with what", "", *_matrix(known), "", *_reasons(known)])


def written(page: str) -> str:
    """A page with the tables between its markers."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise UserError(f"the page needs one line {BEGIN!r} and below it one line {END!r}; put them where tables go")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def why_not(one: AnyTechnique, other: AnyTechnique) -> tuple[str, ...]:
    """Why two techniques do not combine, under whichever layout (empty: they do)."""
    pair = [_least(each) for each in (one, other, *needed_beside([one, other]))]
    if LAYOUT in one.claims | other.claims:
        return refusals(pair, ANY)
    tried = [refusals([*pair, _least(each)], ANY) for each in ours().values() if LAYOUT in each.claims]
    return min(tried, key=len)


def _least(technique: AnyTechnique) -> Choice:
    return Choice(technique.name, technique.Decision())


def _described(known: Sequence[AnyTechnique]) -> Iterable[str]:
    yield from _header("technique", "what it does", "claims", "needs", "offers", "fidelity")
    for each in known:
        about = (each.__doc__ or "").splitlines()[0]
        lists = (", ".join(sorted(names)) for names in (each.claims, each.needs, each.offers))
        yield _row(f"`{each.name}`", about, *lists, each.costs)


def _matrix(known: Sequence[AnyTechnique]) -> Iterable[str]:
    yield from _header("", *(f"`{each.name}`" for each in known))
    for row in known:
        cells = ("" if row is column else "no" if why_not(row, column) else "yes" for column in known)
        yield _row(f"`{row.name}`", *cells)


def _reasons(known: Sequence[AnyTechnique]) -> Iterable[str]:
    found = [(one, other, why_not(one, other)) for one, other in combinations(known, 2)]
    return (f"- `{one.name}` with `{other.name}`: {'; '.join(why)}." for one, other, why in found if why)


def _header(*cells: str) -> list[str]:
    return [_row(*cells), _row(*["---"] * len(cells))]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes or checks the page; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gnnplan.planner.composition.table", description=__doc__)
    parser.add_argument("page", nargs="?", type=Path, default=PAGE)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where the page is not current")
    asked = parser.parse_args(arguments)
    page = asked.page.read_text(encoding="utf-8")
    current = written(page)
    if not asked.check:
        asked.page.write_text(current, encoding="utf-8")
    elif current != page:
        print(f"{asked.page}: not current; run python -m gnnplan.planner.composition.table", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

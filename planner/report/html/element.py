"""HTML that is escaped unless it was made here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_EMPTY = frozenset({"meta", "rect", "line", "path", "circle"})  # elements without content


class Html(str):
    """Markup that is put into a page as it stands. All other strings are text, and are escaped."""


def element(name: str, /, *children: str, **attributes: str | float) -> Html:
    """An element. A trailing underscore of an attribute's name is dropped (`class_`), others become hyphens."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"' for key, value in attributes.items()
    )
    if name in _EMPTY and not children:
        return Html(f"<{name}{written}/>")
    return Html(f"<{name}{written}>{joined(children)}</{name}>")


def joined(children: Iterable[str]) -> Html:
    """Markup as it stands and text escaped, one after the other."""
    return Html("".join(child if isinstance(child, Html) else escape(child) for child in children))


def section(title: str, *children: str, note: str = "") -> Html:
    """A part of a page under a heading, with a sentence that says how to read it."""
    words = [element("p", note, class_="note")] if note else []
    return element("section", element("h2", title), *words, *children)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = (), *, is_narrow: bool = False
) -> Html:
    """A table; on a narrow screen every row becomes a card whose lines have the columns' names.

    Args:
        numbers: indices of columns that stand at the right.
        is_narrow: it fits a narrow screen as it is, and stays a table there.
    """
    right = set(numbers)
    sides = ["n" if index in right else "w" for index in range(len(columns))]
    head = element("tr", *(element("th", name, scope="col", class_=side) for name, side in zip(columns, sides)))
    body = (
        element(
            "tr",
            *(
                element("td", cell, class_=side, data_label=name)
                for cell, name, side in zip(row, columns, sides, strict=True)
            ),
        )
        for row in rows
    )
    return element("table", element("thead", head), element("tbody", *body), class_="narrow" if is_narrow else "cards")


def bar(share: float, what: str, words: str) -> Html:
    """A bar of a share of its whole."""
    width = min(max(share, 0.0), 1.0) * 1000
    inside = element("rect", x=0, y=0, width=f"{width:.1f}", height=10, class_=what)
    return strip([inside], words, 10)


def strip(marks: Iterable[Html], words: str, height: int) -> Html:
    """Marks on a strip 1,000 wide that takes the width of its place, whatever that is."""
    return element(
        "svg",
        element("title", words),
        *marks,
        viewBox=f"0 0 1000 {height}",
        preserveAspectRatio="none",
        role="img",
        class_="strip",
        style=f"height:{height}px",
    )

"""Tables that lose nothing where the terminal is narrow."""

from __future__ import annotations

from rich import box
from rich.table import Table


def new_table(title: str, *columns: str, words: tuple[str, ...] = ()) -> Table:
    """A table that fits 80 columns: words go on in the next line, numbers stay whole.

    Args:
        columns: headings, in order; numbers stand at the right.
        words: of these columns the ones with words.
    """
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        if column in words:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    return table

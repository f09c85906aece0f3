"""Options that would change nothing, given together with others: they are refused, not ignored."""

from __future__ import annotations

import argparse
from typing import Any

from gnnplan.profiles.errors import UserError


def refuse_ignored(arguments: argparse.Namespace, why: str, **defaults: Any) -> None:
    """`UserError` where an option is not as its verb has it.

    Args:
        why: in words, after the options.
        defaults: by option; one that the verb does not have is none.
    """
    given = [name for name, default in defaults.items() if getattr(arguments, name, default) != default]
    if given:
        raise UserError(f"{', '.join('--' + name.replace('_', '-') for name in given)}: {why}; leave it out")

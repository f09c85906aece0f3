"""Options that would change nothing, given together with others: they are refused, not ignored."""

from __future__ import annotations

import argparse

from gnnplan.profiles.errors import UserError


def refuse_ignored(arguments: argparse.Namespace, why: str, *options: str) -> None:
    """`UserError` where an option is not as its verb has it.

    Args:
        arguments: with `default_of`, an option's default by its name.
        why: in words, after the options.
        options: by name; one that the verb does not have is not given.
    """
    has = [name for name in options if hasattr(arguments, name)]
    given = [name for name in has if getattr(arguments, name) != arguments.default_of(name)]
    if given:
        raise UserError(f"{', '.join('--' + name.replace('_', '-') for name in given)}: {why}; leave it out")

"""The options of the command line that say which mini-batches are piloted."""

from __future__ import annotations

import argparse

_MOST = 10**9  # neighbours, or vertices


def add_batches(parser: argparse.ArgumentParser) -> None:
    """Adds the options; every combination of what they list is a kind of mini-batches."""
    group = parser.add_argument_group(
        "mini-batches", "kinds that are piloted, in place of the job's or of 10 neighbours"
    )
    group.add_argument(
        "--fan-outs",
        type=_fan_outs,
        nargs="+",
        default=[],
        metavar="N,N",
        help="neighbours a hop, one number for each sum over edges: 5,5 10,10 are two kinds; all is every neighbour",
    )
    group.add_argument("--batch-sizes", type=_size, nargs="+", default=[], help="vertices a batch, with each fan-outs")


def _fan_outs(text: str) -> tuple[int, ...]:
    return tuple(-1 if word == "all" else _size(word) for word in text.split(","))


def _size(text: str) -> int:
    if not (text.isdecimal() and len(text) < 12 and 0 < int(text) <= _MOST):
        raise argparse.ArgumentTypeError(f"must be whole numbers of at least 1, got {text!r}")
    return int(text)

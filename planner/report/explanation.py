"""An explanation of a plan in sentences and tables, for 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gnnplan.planner.explain.explanation import Explanation, Memory, PathPart, Price, WorkerTime
from gnnplan.planner.plan import Rejected
from gnnplan.planner.report.units import seconds, signed, size

NOTHING = 5e-4  # of an epoch: as a share it would be printed as 0.0%
_AS_FAST = 1e-3  # of an epoch: the search takes no round for less
_MORE = 1.01  # times a single epoch is one of a long run where workers pause
_MOST_PARTS = 8
NO_PRICES = "What a better resource would gain is not known: the stages of mini-batches were measured as a whole."
_CATEGORIES = {"compute_s": "computing", "communicate_s": "communication and waiting", "host_s": "the hosts' own work"}


def explanation_tables(explanation: Explanation) -> RenderableType:
    """All that an explanation says, from what the epoch is made of to what was not chosen."""
    pauses = f" ({seconds(explanation.long_run_epoch_s)} in the mean of many)" if _has_pauses(explanation) else ""
    return Group(
        Text(f"epoch {seconds(explanation.epoch_s)}{pauses}. From its begin to its end it waits for this:"),
        _path_table(explanation.path),
        _workers_table(explanation),
        _prices_table(explanation),
        *map(Text, _combined(explanation)),
        *map(Text, _memory(explanation)),
        _rejected_table(explanation),
    )


def _path_table(path: tuple[PathPart, ...]) -> Table:
    table = Table.grid(padding=(0, 2))
    for justify in ("right", "right", "left"):
        table.add_column(justify=justify)
    for part in path[:_MOST_PARTS]:
        table.add_row(f"{part.share:.1%}", seconds(part.seconds), part_words(part))
    if rest := path[_MOST_PARTS:]:
        total_s = sum(part.seconds for part in rest)
        table.add_row(f"{sum(part.share for part in rest):.1%}", seconds(total_s), f"{len(rest)} shorter part(s)")
    return table


def part_words(part: PathPart) -> str:
    """What a part of the critical path is."""
    if not part.collective:
        return f"worker {part.worker} computes, most of it {', '.join(part.tasks)}"
    set_by = "" if part.worker is None else f", set by worker {part.worker}'s link"
    return f"the {part.collective}{set_by}"


def _workers_table(explanation: Explanation) -> Table:
    table = Table(title="what binds each worker", title_justify="left")
    for column in ("worker", "host", "most of its epoch", "then"):
        table.add_column(column, justify="right" if column == "worker" else "left")
    for worker in explanation.workers:
        first, *others = map(_time, worker.times)
        table.add_row(str(worker.worker), worker.host, first, "; ".join(others[:3]))
    return table


def _time(time: WorkerTime) -> str:
    what = {"compute": "compute", "port": "its own port", "wait": f"waits for {time.peer}", "idle": "idle"}[time.what]
    return f"{what} {time.share:.1%} ({seconds(time.seconds)})"


def _prices_table(explanation: Explanation) -> RenderableType:
    if not explanation.prices:
        return Text(NO_PRICES)
    factors = {price.factor for price in explanation.prices}
    better = ", ".join(f"{factor - 1:.0%}" for factor in factors)
    table = Table(title=f"the epoch of this plan, if one resource is {better} better", title_justify="left")
    table.add_column("resource")
    table.add_column("epoch", justify="right")
    table.add_column("", justify="right")
    for price in explanation.prices:
        if abs(price.share) >= NOTHING:
            table.add_row(*price.resources, f"{price.share:+.1%}", signed(price.moved_s))
    if without := [price.resources[0] for price in explanation.prices if abs(price.share) < NOTHING]:
        shown = ", ".join(without[:4]) + (f" and {len(without) - 4} more" if len(without) > 4 else "")
        table.add_row(f"{shown}", "no change", "")
    return table


def _combined(explanation: Explanation) -> Iterator[str]:
    yield from map(moved_words, explanation.combined)


def moved_words(price: Price) -> str:
    """What a larger move does."""
    times = "twice" if price.factor == 2 else f"{price.factor:g} times"
    return f"{' and '.join(price.resources)} {times} as good: {_moved(price)}."


def _moved(price: Price) -> str:
    return f"epoch {price.share:+.0%} ({signed(price.moved_s)}), simulated"


def _memory(explanation: Explanation) -> Iterator[str]:
    spare = ", ".join(f"worker {each.worker} {size(each.spare_bytes)}" for each in explanation.memory[:8])
    yield f"memory to spare: {spare}{' ...' if len(explanation.memory) > 8 else ''}"
    for each in explanation.memory:
        if each.more_bytes:
            yield _searched(each, explanation.long_run_epoch_s)


def _searched(memory: Memory, epoch_s: float) -> str:
    what = f"one more GB on worker {memory.worker} ({memory.host}), searched again"
    return f"{what}: epoch {memory.moved_s / epoch_s:+.1%} ({signed(memory.moved_s)})."


def _rejected_table(explanation: Explanation) -> RenderableType:
    if not explanation.rejected:
        return Text("what was not chosen: this plan keeps none; make it again with this version")
    table = Table(title="the best of what was not chosen", title_justify="left")
    for column in ("candidate", "epoch", "why not"):
        table.add_column(column, justify="right" if column == "epoch" else "left")
    for each in explanation.rejected:
        table.add_row(f"{kind_words(each)}: {each.summary}", seconds(each.epoch_s), why_words(each, explanation))
    return table


def kind_words(each: Rejected) -> str:
    """Of what kind a rejected candidate is."""
    name = each.technique.replace("_", " ")
    return {
        "alone": "one worker alone",
        "workers": "other workers",
        "without": f"without {name}",
        "with": f"with {name}",
        "decided": "same techniques, decided otherwise",
        "memory": "faster, with more memory",
        "model": "another model",
    }[each.kind]


def why_words(each: Rejected, explanation: Explanation) -> str:
    """Why a candidate was not chosen."""
    if each.missing_bytes:
        return f"{each.missing_on} lacks {size(each.missing_bytes)}"
    share = each.epoch_s / explanation.long_run_epoch_s - 1
    if abs(share) <= _AS_FAST:
        return "as fast"
    if share < 0:
        return f"{share:+.1%}: the objective, a pin, or tasks that vary more are against it"
    more = {name: getattr(each, name) - getattr(explanation, name) for name in _CATEGORIES}
    largest = max(more, key=lambda name: more[name])
    if more[largest] < (each.epoch_s - explanation.long_run_epoch_s) / 2:
        return f"{share:+.1%}: less runs side by side{', or more pauses' if _has_pauses(explanation) else ''}"
    return f"{share:+.1%}: {seconds(more[largest])} more {_CATEGORIES[largest]}"


def _has_pauses(explanation: Explanation) -> bool:
    return explanation.long_run_epoch_s > _MORE * explanation.epoch_s

"""What a plan decides, and what it asks of every worker."""

from __future__ import annotations

from collections.abc import Iterator

from gnnplan.planner.explain.explanation import Explanation, WorkerTime
from gnnplan.planner.interval.ranking import are_apart_here
from gnnplan.planner.money import cost_of
from gnnplan.planner.plan import Plan, Rejected
from gnnplan.planner.report.html.element import Html, bar, element, section, table
from gnnplan.planner.report.units import dollars, seconds, size
from gnnplan.planner.report.words import interval_words, objective_words
from gnnplan.planner.techniques.registry import technique
from gnnplan.planner.trace import Trace

_MOST_WORKERS = 32
_BINDS = {"compute": "computes", "port": "its own port", "wait": "waits", "idle": "idle"}


def head(plan: Plan, measured: Trace | None) -> Html:
    """What it is of, and the figures one asks for first."""
    graph, prediction = plan.graph, plan.prediction
    cost = cost_of(plan)
    facts = [
        ("epoch, predicted", seconds(prediction.expected_epoch_s), interval_words(prediction).strip(" ()")),
        ("epoch, measured", seconds(measured.median_epoch_s), _error(plan, measured)) if measured else None,
        (f"{plan.job.training.epochs:,} epochs", seconds(cost.seconds), "setup left out"),
        ("price", f"${dollars(cost.dollars)}", f"{plan.placement.price_per_hour:g} an hour") if cost.dollars else None,
        ("workers", str(plan.num_workers), ", ".join(f"{n} on {host}" for host, n in _hosts(plan))),
        ("fidelity", plan.fidelity, ""),
    ]
    objective = [element("p", objective_words(prediction.objective))] if prediction.objective else []
    return element(
        "header",
        element("h1", f"{plan.job.name}: {'run' if measured else 'plan'}"),
        element(
            "p",
            f"{plan.job.model_words}, on {graph.name}: "
            f"{graph.num_nodes:,} vertices, {graph.num_edges:,} edges, {graph.num_features:,} features",
            class_="dim",
        ),
        element("div", *(_fact(*each) for each in facts if each), class_="facts"),
        *objective,
    )


def _hosts(plan: Plan) -> list[tuple[str, int]]:
    hosts = list(plan.placement.workers_by_host.items())
    named, others = hosts[:4], hosts[4:]
    return [*named, (f"{len(others)} more hosts", sum(count for _, count in others))] if others else named


def _error(plan: Plan, measured: Trace) -> str:
    error = plan.prediction.expected_epoch_s / measured.median_epoch_s - 1
    interval = plan.prediction.interval
    is_within = interval and interval.low_s <= measured.median_epoch_s <= interval.high_s
    where = "" if interval is None else f", {'within' if is_within else 'outside'} the interval"
    return f"prediction {error:+.1%}{where}"


def _fact(name: str, value: str, note: str) -> Html:
    return element("div", element("span", name), element("b", value), element("span", note), class_="fact")


def techniques(plan: Plan) -> Html:
    """A sentence each, and what the search found without it."""
    without = {each.technique: each for each in plan.rejected if each.kind == "without"}
    rows = [
        (
            chosen.technique.replace("_", " "),
            technique(chosen.technique).words(chosen.choice().decision),
            _gain(plan, without.get(chosen.technique)),
        )
        for chosen in plan.choices
    ]
    return section(
        "What each technique gains",
        table(("technique", "what it does here", "without it"), rows),
        note="The best plan on the same workers without the technique, of all that the search looked at.",
    )


def _gain(plan: Plan, without: Rejected | None) -> str:
    if without is None:
        return "not looked at"
    if without.missing_bytes:
        return f"{without.missing_on} lacks {size(without.missing_bytes)}"
    chosen_s = plan.prediction.long_run_epoch_s
    share = without.epoch_s / chosen_s - 1
    apart = are_apart_here(without.epoch_s, chosen_s, plan.prediction.interval)
    return f"epoch {share:+.1%} ({seconds(without.epoch_s)}){'' if apart else ', too near to tell'}"


def workers(plan: Plan, explanation: Explanation) -> Html:
    """Where each worker's epoch goes, and its memory beside what it has."""
    columns = ("worker", "vertices", "edges", "sent an epoch", "its epoch", "peak memory")
    rows = list(_worker_rows(plan, explanation))
    more = f"{plan.num_workers - len(rows)} more workers are not listed." if plan.num_workers > len(rows) else ""
    body = table(columns, rows, numbers=(1, 2, 3))
    return section("Workers", body, *([element("p", more, class_="note")] if more else []))


def _worker_rows(plan: Plan, explanation: Explanation) -> Iterator[tuple[str, ...]]:
    shares = plan.shares() if plan.mini_batch is None else [(0, 0, 0)] * plan.num_workers
    for rank, (load, share) in enumerate(zip(plan.prediction.workers[:_MOST_WORKERS], shares)):
        used = load.used_share
        words = f"{size(load.peak_bytes)} of {size(load.capacity_bytes)} ({used:.0%})"
        yield (
            f"{rank} on {plan.placement.workers[rank].host}",
            f"{share[0]:,}" if plan.mini_batch is None else "",
            f"{share[1]:,}" if plan.mini_batch is None else "",
            size(load.mean_sent_bytes(plan.refresh_interval)),
            ", ".join(map(_time, explanation.workers[rank].times[:3])),
            element("span", words, bar(used, "compute" if used <= 1 else "over", f"memory of worker {rank}: {words}")),
        )


def _time(time: WorkerTime) -> str:
    peer = f" for worker {time.peer}" if time.what == "wait" else ""
    return f"{_BINDS[time.what]}{peer}: {time.share:.0%}"


def guesses(plan: Plan) -> Html:
    """What was not measured."""
    keys = plan.prediction.unprofiled
    if not keys:
        return section("What was not measured", element("p", "Every task lies within the profiled shapes."))
    shown = element("p", *(piece for key in keys[:40] for piece in (element("code", key), " ")))
    more = [element("p", f"and {len(keys) - 40} more", class_="note")] if len(keys) > 40 else []
    words = f"{len(keys)} tasks have shapes outside the profile, or links that nobody timed. Their seconds are guesses."
    return section("What was not measured", element("p", words), shown, *more)

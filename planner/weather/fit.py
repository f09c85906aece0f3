"""From a measured trace to the two-state models of its workers."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from gnnplan.planner.trace import Trace
from gnnplan.planner.weather.model import MarkovWeather, WorkerWeather
from gnnplan.planner.weather.two_state import durations, split
from gnnplan.profiles.errors import UserError

LEAST_EPOCHS = 20
_NOTHING_S = 1e-9


def fit_weather(trace: Trace) -> MarkovWeather:
    """What every worker's processor and link did in the traced epochs of a run of plain halo exchange.

    A worker's processor is judged by the seconds of its compute tasks; of the links, that one is taken to be slow
    at which an epoch's slow exchanges ended last, for all that exchange with it are held up too.

    Raises `UserError` where fewer than 20 epochs on end were traced, or workers were missing from epochs.
    """
    if trace.num_members:
        raise UserError(
            "weather is fitted from epochs that are all alike, with all workers; leave out pin.partial_reduce and run "
            "the plan again"
        )
    epochs = sorted({span.epoch for span in trace.spans})
    if trace.origin != "measured" or len(epochs) < LEAST_EPOCHS or epochs[-1] - epochs[0] != len(epochs) - 1:
        raise UserError(
            f"weather is fitted from a measured trace of at least {LEAST_EPOCHS} epochs on end; set "
            f"training.traced_epochs to the number of epochs and run the plan again"
        )
    compute_s, transfer_s, last, lengths_s = _series(trace, epochs)
    links = _links(transfer_s, last, lengths_s, trace.num_workers)
    workers = []
    for seconds, link in zip(compute_s, links):
        found = split(np.maximum(seconds, _NOTHING_S))
        workers.append(WorkerWeather(compute=durations(found[0], lengths_s, found[1]) if found else None, link=link))
    return MarkovWeather(workers=tuple(workers))


def _links(transfer_s: np.ndarray, last: np.ndarray, lengths_s: np.ndarray, num_workers: int) -> list:
    found = split(np.maximum(transfer_s, _NOTHING_S))
    if found is None:
        return [None] * num_workers
    is_slow, share = found
    return [durations(is_slow & (last == worker), lengths_s, share) for worker in range(num_workers)]


def _series(trace: Trace, epochs: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """By epoch: compute seconds [W, E]; of exchanges, seconds once all have come and who ended last [E]; length [E]."""
    place = {epoch: index for index, epoch in enumerate(epochs)}
    compute_s, lengths_s = np.zeros((trace.num_workers, len(epochs))), np.zeros(len(epochs))
    exchanges: dict[tuple[int, str], list[tuple[int, float, float]]] = defaultdict(list)
    for span in trace.spans:
        at = place[span.epoch]
        lengths_s[at] = max(lengths_s[at], span.end_s)
        if span.category == "compute":
            compute_s[span.worker, at] += span.end_s - span.start_s
        elif span.category == "communicate":
            exchanges[at, span.task].append((span.worker, span.start_s, span.end_s))
    lateness_s = np.zeros_like(compute_s)
    transfer_s = np.zeros(len(epochs))
    for (at, _), members in exchanges.items():
        begin_s = max(start_s for _, start_s, _ in members)
        transfer_s[at] += max(end_s for _, _, end_s in members) - begin_s
        for worker, _, end_s in members:
            lateness_s[worker, at] += end_s - begin_s
    return compute_s, transfer_s, lateness_s.argmax(0), lengths_s

"""When a worker goes on without its peers: the rule that the simulator plays and the runtime follows.

Rounds are numbered as epochs: round r is the step that ends epoch r. A worker begins epoch r with the weights that
round r - 1 made, so only members of round r - 1 send rows of version r. Plain functions of numbers, which the
simulator compiles.

NeutronCloud (PVLDB 19(1), 2025), section 5.2 (partial computation) and 5.3 (partial update).
"""

from __future__ import annotations

WARM_UP_EPOCHS = 3
"""First epochs, in which all wait for all and measure what is usual; the very first is not counted."""


def majority(num_workers: int) -> int:
    """floor(M / 2) + 1, the paper's least group."""
    return num_workers // 2 + 1


def staleness_of(epoch: int, closing_from: int, max_staleness: int) -> int:
    """Epochs that rows and gradients may be old in an epoch: none while all wait for all, nor once the closing began.

    A worker may come to the closing's first step from an earlier epoch, so rows may be old there as in any other.
    """
    return 0 if epoch < WARM_UP_EPOCHS or epoch > closing_from else max_staleness


def absence_of(number: int, closing_from: int, max_staleness: int, interval: int = 1) -> int:
    """Rounds on end that a worker may be missing from, with this one: none while all wait for all and in the closing.

    Args:
        closing_from: first round of the closing, in which all take part; the last round at the latest.
        interval: epochs from one that refreshes kept rows to the next. All begin such an epoch together, for who does
            not would never send the rows; so the round before it is everybody's.
    """
    is_before_refresh = interval > 1 and number % interval == interval - 1
    return 0 if number < WARM_UP_EPOCHS or number >= closing_from or is_before_refresh else max_staleness


def deadline_s(begin_s: float, usual_s: float, alpha: float) -> float:
    """T0 + alpha T0 after `begin_s`: until then a worker waits for what comes late."""
    return begin_s + (1.0 + alpha) * usual_s


def is_expected(took_part: bool, missed: bool, latest: int, epoch: int) -> bool:
    """Whether a peer is worth waiting for at all.

    Args:
        took_part: in the round before; else it is still in an epoch before this one and sends nothing of it.
        missed: it has already missed a deadline of this epoch.
        latest: newest version of any of its rows that are here; of this epoch, it is on its way again.
    """
    return took_part and (not missed or latest >= epoch)


def is_too_old(version: int, epoch: int, max_staleness: int) -> bool:
    """Whether rows or gradients of a version may no longer be used: they are waited for, however long."""
    return version < epoch - max_staleness


def is_overdue(last_round: int, number: int, max_staleness: int) -> bool:
    """Whether a worker that took part last in `last_round` cannot be missing from this round too.

    It is missing from at most `max_staleness` rounds on end, and its gradient is at most as many steps old.
    """
    return number - last_round > max_staleness


def may_step(num_ready: int, min_group: int, has_overdue: bool, has_expected: bool, past_deadline: bool) -> bool:
    """Whether the workers that are ready may step as a group.

    Args:
        has_overdue: all that are overdue are ready.
        has_expected: all that are worth waiting for are ready.
        past_deadline: T0 + alpha T0 of the epoch have passed.
    """
    return num_ready >= min_group and has_overdue and (has_expected or past_deadline)

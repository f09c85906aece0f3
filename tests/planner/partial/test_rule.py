"""The waiting rule: its edges, and that following it nobody waits for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.partial import rule


@pytest.mark.parametrize(("size", "least"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (16, 9)])
def test_two_majorities_share_a_worker(size, least):
    """floor(M / 2) + 1, the least number of which two cannot be apart."""
    assert rule.majority(size) == least
    assert 2 * least > size >= 2 * (least - 1)


def test_deadline_is_alpha_past_the_usual():
    """T0 + alpha T0 after the begin."""
    assert rule.deadline_s(10.0, 2.0, 0.5) == 13.0
    assert rule.deadline_s(10.0, 2.0, 0.0) == 12.0


def test_warm_up_and_closing_are_everybodys():
    """Rows may be old in the closing's first epoch, but nobody may be missing from its step."""
    stale, absent = ([of(epoch, 6, 3) for epoch in range(8)] for of in (rule.staleness_of, rule.absence_of))
    assert stale == [0, 0, 0, 3, 3, 3, 3, 0]
    assert absent == [0, 0, 0, 3, 3, 3, 0, 0]


def test_who_may_be_missing_and_what_may_be_used():
    """K epochs old will do, K + 1 will not; missing from K rounds will do."""
    assert [rule.is_too_old(version, 10, 3) for version in (6, 7, 10, 12)] == [True, False, False, False]
    assert [rule.is_overdue(last, 10, 3) for last in (5, 6, 7, 9)] == [True, True, False, False]
    assert rule.is_overdue(9, 10, 0)


@pytest.mark.parametrize(
    ("took_part", "missed", "latest", "expected"),
    [
        (True, False, 2, True),
        (True, True, 4, False),
        (True, True, 5, True),
        (True, True, 6, True),
        (False, False, 5, False),
    ],
)
def test_who_is_worth_waiting_for(took_part, missed, latest, expected):
    """Who took part in the step before, unless it missed a deadline and has not been heard of in this epoch, 5."""
    assert rule.is_expected(took_part, missed, latest, 5) is expected


@given(st.integers(0, 5), st.booleans(), st.booleans(), st.booleans())
def test_a_group_needs_its_number_and_the_overdue_whatever_the_time(num_ready, overdue, expected, past):
    """The deadline lets only those be left out who are waited for out of patience."""
    may = rule.may_step(num_ready, 3, overdue, expected, past)
    assert may == (num_ready >= 3 and overdue and (expected or past))


@given(st.integers(2, 5), st.integers(0, 3), st.randoms(use_true_random=False))
def test_somebody_can_always_go_on(size, max_staleness, rng):
    """Workers that take turns in any order, and go on only as the rule lets them, all reach the end.

    Two exchanges an epoch; messages arrive at once; deadlines have always passed, so only what is too old, overdue
    or too few holds anybody up.
    """
    num_epochs, num_slots, min_group = 12, 2, rng.randint(1, size)
    closing_from = num_epochs - rng.randint(1, num_epochs)
    begun, last, slot = [0] * size, [-1] * size, [0] * size
    version = [[-1] * num_slots for _ in range(size)]
    number = 0
    for _ in range(2000):
        if number == num_epochs:
            break
        moves = []
        for w in range(size):
            if last[w] == number - 1 and begun[w] != number and slot[w] == num_slots:
                begun[w], slot[w] = number, 0
            if slot[w] < num_slots:
                version[w][slot[w]] = begun[w]  # sent before it waits
                staleness = rule.staleness_of(begun[w], closing_from, max_staleness)
                if not any(rule.is_too_old(version[p][slot[w]], begun[w], staleness) for p in range(size)):
                    moves.append(w)
        ready = [w for w in range(size) if slot[w] == num_slots and last[w] < number]
        absence = rule.absence_of(number, closing_from, max_staleness)
        has_overdue = not any(rule.is_overdue(last[w], number, absence) for w in range(size) if w not in ready)
        can_step = rule.may_step(len(ready), min_group, has_overdue, False, True)
        assert moves or can_step, "nobody can go on"
        if can_step and (not moves or rng.random() < 0.5):
            for w in ready:
                assert number - begun[w] <= max_staleness
                last[w] = number
            number += 1
        else:
            slot[rng.choice(moves)] += 1
    assert number == num_epochs


def test_nobody_is_missing_before_kept_rows_are_refreshed():
    """Every third epoch, beside the warm-up and the closing."""
    found = [rule.absence_of(number, 12, 4, interval=3) for number in range(13)]
    assert found == [0, 0, 0, 4, 4, 0, 4, 4, 0, 4, 4, 0, 0]
    assert [rule.absence_of(number, 12, 4) for number in range(13)] == [0] * 3 + [4] * 9 + [0]

"""A split that makes epochs longer is taken back, and what does not help is tried less and less often."""

import pytest

from runtime.hybrid.trials import Trials


def heard(trials, *lengths_s):
    """Whether each epoch's length had the split before it come back."""
    return [trials.hear(length_s) for length_s in lengths_s]


def tried(trials, last_before_s, *after_s):
    """The same of a split: its first epoch comes after one that all hear of only when it is set up."""
    trials.begin()
    return heard(trials, last_before_s, *after_s)


def num_rests(trials, epoch_s):
    """Epochs of a length until another split may be wanted."""
    for epoch in range(100):
        if trials.is_open:
            return epoch
        trials.hear(epoch_s)
    raise AssertionError("never open")


@pytest.fixture
def trials():
    made = Trials()
    assert heard(made, 2.0, 2.1, 1.9) == [False] * 3
    return made


def test_a_split_that_makes_epochs_shorter_stays_and_another_may_be_wanted(trials):
    """At once: what helps is not waited with."""
    assert tried(trials, 2.0, 1.5, 1.6) == [False] * 3
    assert trials.is_open


def test_a_split_that_makes_epochs_longer_is_taken_back(trials):
    """After two epochs; one of them may be disturbed, so the shorter counts."""
    assert tried(trials, 2.0, 2.5, 2.4) == [False, False, True]
    assert tried(Trials(), 2.0, 9.0, 1.9) == [False] * 3


def test_no_other_split_is_wanted_while_one_is_on_trial(trials):
    """Else what an epoch shows would be of several."""
    trials.begin()
    assert not trials.is_open
    heard(trials, 2.0, 1.0)
    assert not trials.is_open


def test_weather_that_changed_just_before_is_not_taken_for_the_split(trials):
    """Rates are medians, so two slow epochs and the one in which all agree were under the split before."""
    heard(trials, 4.0, 4.1)
    assert tried(trials, 4.2, 3.0, 3.1) == [False] * 3
    assert trials.is_open


def test_what_does_not_help_is_tried_less_and_less_often(trials):
    """Twice as long a rest each time, up to a most; what helps ends that."""
    rests = []
    for _ in range(7):
        tried(trials, 2.0, 3.0, 3.0)
        rests.append(num_rests(trials, 2.0))
    trials.begin()
    heard(trials, 2.0, 1.0, 1.0)
    assert trials.is_open
    tried(trials, 1.0, 1.0, 1.0)
    # the epoch that is heard of first after a split came back was still under the other
    assert [*rests, num_rests(trials, 1.0)] == [5, 9, 17, 33, 65, 65, 65, 4]


def test_other_weather_ends_a_rest(trials):
    """Epochs that are a quarter longer or shorter: what was tried says nothing of them."""
    for _ in range(4):
        tried(trials, 2.0, 3.0, 3.0)
        num_rests(trials, 2.0)
    tried(trials, 2.0, 3.0, 3.0)
    assert num_rests(trials, 5.0) == 3

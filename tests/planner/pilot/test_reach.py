"""Which family reaches an accuracy first: epochs by curves, seconds and dollars by plans."""

from types import SimpleNamespace

import pytest

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.objective.spec import ObjectiveSpec
from gnnplan.planner.pilot.contract import Curve, Pilots, family_of, trained_fingerprint
from gnnplan.planner.pilot.reach import to_accuracy
from gnnplan.planner.pilot.run import families_of
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import UserError

GRAPH = "0123456789abcdef"
FULL, BATCHES = families_of(Job(graph=SbmGraph(source="sbm"), mini_batch=MiniBatchSpec(fan_outs=(10, 5))))


def pilots_of(full, batches):
    """Curves of these accuracies."""
    pairs = ((FULL, full, 1), (BATCHES, batches, 9))
    return Pilots(
        curves=tuple(
            Curve(
                trained=trained_fingerprint(job, GRAPH),
                family=family_of(job),
                steps_per_epoch=steps,
                accuracies=accuracies,
            )
            for job, accuracies, steps in pairs
        )
    )


def plan_of(job, epoch_s, price=3600.0, num_workers=1):
    """What of a plan is asked for; a dollar a second."""
    return SimpleNamespace(
        job=job,
        graph=SimpleNamespace(fingerprint=GRAPH),
        num_workers=num_workers,
        placement=SimpleNamespace(price_per_hour=price),
        prediction=SimpleNamespace(each_of_many_s=epoch_s),
    )


PILOTS = pilots_of((0.2, 0.4, 0.6, 0.8, 0.9), (0.7, 0.85, 0.84))


def test_fewer_epochs_may_take_longer():
    """Four epochs of one second go before two of three."""
    reached = to_accuracy(PILOTS, [plan_of(FULL, 1.0), plan_of(BATCHES, 3.0)], 0.8)
    assert [way.epochs for way in reached.ways] == [4, 2]
    assert reached.best.family == "full_batch"
    assert reached.is_sure
    assert reached.words() == "By full batch the accuracy 80.0% takes 4 epochs, 4 s."


def test_money_weighs_seconds_by_price():
    """What is faster costs more here."""
    plans = [plan_of(FULL, 1.0, price=36_000), plan_of(BATCHES, 3.0)]
    assert to_accuracy(PILOTS, plans, 0.8).best.family == "full_batch"
    by_money = to_accuracy(PILOTS, plans, 0.8, "money")
    assert by_money.best.family == "mini_batch"
    assert "6 dollars" in by_money.words()


def test_a_host_without_a_price_costs_nothing():
    """As in the search; of two of them the faster is taken."""
    free, dear = plan_of(FULL, 1.0, price=0.0), plan_of(BATCHES, 0.1)
    assert to_accuracy(PILOTS, [dear, free], 0.8, "money").best.family == "full_batch"
    with pytest.raises(UserError, match="no host of any plan has a price"):
        to_accuracy(PILOTS, [free, free], 0.8, "money")


def test_a_limit_may_leave_the_faster_family_out():
    """What is over the deadline or the budget is said, and not taken."""
    plans = [plan_of(FULL, 1.0, price=36_000), plan_of(BATCHES, 3.0)]
    dear = to_accuracy(PILOTS, plans, 0.8, "time", ObjectiveSpec(budget=10.0))
    assert dear.best.family == "mini_batch"
    assert dear.is_sure
    assert "Full batch costs 40 dollars, more than the budget of 10." in dear.words()
    late = to_accuracy(PILOTS, plans, 0.8, "money", ObjectiveSpec(deadline_s=3.0))
    assert late.best is None
    assert late.words().startswith("No family came to 80.0% within the limits. Full batch takes 4 s")


def test_a_short_curve_is_said_to_be_short():
    """Batches might come to it in their fourth epoch, which would be sooner."""
    reached = to_accuracy(PILOTS, [plan_of(FULL, 1.0), plan_of(BATCHES, 0.1)], 0.9)
    assert reached.best.family == "full_batch"
    assert not reached.is_sure
    assert "mini-batch was not long enough to tell: it came to 85.0% in 3 epochs" in reached.words()


def test_a_short_curve_may_be_long_enough_to_lose():
    """A fourth epoch alone would take longer than all of the other's."""
    reached = to_accuracy(PILOTS, [plan_of(FULL, 1.0), plan_of(BATCHES, 2.0)], 0.9)
    assert reached.is_sure
    assert "Mini-batch takes longer, however its curve goes on." in reached.words()


def test_where_no_curve_came_so_far_nothing_is_chosen():
    """Both are named."""
    reached = to_accuracy(PILOTS, [plan_of(FULL, 1.0), plan_of(BATCHES, 1.0)], 0.95)
    assert reached.best is None
    assert reached.words().count("not long enough") == 2


@pytest.mark.parametrize(
    ("plan", "by", "match"),
    [
        (plan_of(FULL.model_copy(update={"training": TrainingSpec(seed=7)}), 1.0), "time", "no curve"),
        (plan_of(BATCHES, 1.0, num_workers=2), "time", "pin num_workers = 1"),
        (plan_of(FULL.model_copy(update={"fidelity": "stale"}), 1.0), "time", "fidelity is 'stale'"),
        (plan_of(FULL, 1.0, price=0.0), "money", "price"),
    ],
)
def test_what_cannot_be_compared_is_refused(plan, by, match):
    """In one line that says what to do."""
    with pytest.raises(UserError, match=match):
        to_accuracy(PILOTS, [plan], 0.8, by)


def test_curves_are_of_what_was_trained():
    """Machines, pins and the number of epochs change no curve; the model, the seed and the batches do."""
    other = FULL.model_copy(update={"training": TrainingSpec(epochs=7, traced_epochs=2), "name": "other"})
    assert trained_fingerprint(other, GRAPH) == trained_fingerprint(FULL, GRAPH)
    assert trained_fingerprint(BATCHES, GRAPH) != trained_fingerprint(FULL, GRAPH)
    seeded = FULL.model_copy(update={"training": TrainingSpec(seed=1)})
    assert trained_fingerprint(seeded, GRAPH) != trained_fingerprint(FULL, GRAPH)
    assert trained_fingerprint(FULL, "f" * 16) != trained_fingerprint(FULL, GRAPH)


def test_one_training_has_one_curve():
    """A new one takes the place of the old."""
    newer = PILOTS.curves[0].model_copy(update={"accuracies": (1.0,)})
    renewed = PILOTS.with_curve(newer)
    assert renewed.of(FULL, GRAPH).best == 1.0
    assert len(renewed.curves) == 2
    with pytest.raises(ValueError, match="two curves"):
        Pilots(curves=(newer, newer))


def test_of_too_many_curves_the_oldest_goes():
    """So that the file can be read again."""
    curves = [PILOTS.curves[0].model_copy(update={"trained": f"{number:016x}"}) for number in range(101)]
    pilots = Pilots(curves=tuple(curves[:100])).with_curve(curves[100])
    assert [curve.trained for curve in pilots.curves] == [curve.trained for curve in curves[1:]]
    assert Pilots.model_validate(pilots.model_dump()) == pilots


def test_where_no_family_has_a_plan_nothing_is_chosen():
    """By money too, though there is no price to speak of."""
    reached = to_accuracy(PILOTS, [], 0.8, "money")
    assert reached.best is None
    assert "No family came to 80.0%" in reached.words()


def test_by_money_a_short_curve_is_said_to_cost_more():
    """A dear plan may be faster all the same."""
    pilots = pilots_of((0.5, 0.9), (0.1, 0.2, 0.3))
    reached = to_accuracy(pilots, [plan_of(FULL, 1.0, price=1.0), plan_of(BATCHES, 1.0)], 0.8, "money")
    assert reached.is_sure
    assert "costs more, however its curve goes on" in reached.words()

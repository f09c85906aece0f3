"""What a search proves of its own space holds of all plans there, also of those that it did not compose."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from gnnplan.planner.contracts.technique import LAYOUT
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.readers.bound import Bound
from gnnplan.planner.schedule import Schedule, Task
from gnnplan.planner.search import certificate
from gnnplan.planner.search.certificate import searched_bound
from gnnplan.planner.search.evaluate import Evaluator
from gnnplan.planner.search.pins import options_of
from gnnplan.planner.simulator.steady import epochs_to_play
from gnnplan.planner.techniques.registry import technique, techniques
from gnnplan.profiles.machine import CpuQuota
from tests.planner.search.searched import found, placement_of

ROUNDING = 1e-5  # relative: what is counted in nanoseconds


def all_plain_plans(result):
    """Every combination of what techniques propose without arrays, under the layout and on the workers of the best."""
    setting, best = result.best.setting, result.best
    layout = [choice for choice in best.choices if LAYOUT in technique(choice.technique).claims]
    others = [each for each in techniques().values() if LAYOUT not in each.claims]
    axes = [_plain(each, setting, best) for each in others]
    evaluator = Evaluator(setting)
    for chosen in product(*axes):
        candidate = evaluator.candidate([*layout, *(choice for choice in chosen if choice)])
        if candidate:
            yield candidate


def _plain(each, setting, best):
    """What it proposes without arrays, before and after a plan is there."""
    proposed = [*options_of(each, setting, None), *options_of(each, setting, best)]
    plain = {option.key: option for option in proposed if option and not option.arrays}
    return [*plain.values(), *([None] if None in proposed or not plain else [])]


@pytest.mark.parametrize(("cluster", "kind"), [("network", "gcn"), ("host", "sage")])
def test_no_combination_is_below_it(kind, cluster):
    """The whole grid of plain choices is simulated; and where the gap is nothing, none of it is faster."""
    result = found("skewed", cluster, model=ModelSpec(kind=kind, hidden_channels=32), num_workers=3)
    grid = list(all_plain_plans(result))
    assert len(grid) >= 8
    least_s = min(each.epoch_s for each in grid)
    assert least_s >= result.searched.seconds * (1 - ROUNDING)
    if result.best.epoch_s <= result.searched.seconds * (1 + ROUNDING):
        assert least_s >= result.best.epoch_s * (1 - ROUNDING)


@pytest.mark.parametrize("cluster", ["one", "mixed"])
def test_it_lies_between_the_bound_of_any_plan_and_the_plan(cluster):
    """It claims less than the bound of any plan, so it is no lower."""
    result = found("skewed", cluster)
    assert result.bound.seconds <= result.searched.seconds <= result.best.epoch_s * (1 + ROUNDING)
    assert all(each.epoch_s >= result.searched.seconds * (1 - ROUNDING) for each in result.looked_at)


def test_where_rows_have_to_travel_it_counts_them():
    """The bound of any plan knows no halo, and this one does."""
    slow = found("skewed", "network", on={"bytes_per_s": 3e8}, num_workers=3, dependencies="communicate")
    assert slow.searched.seconds > 1.2 * slow.bound.seconds
    assert slow.searched.set_by.endswith("of 3, layer by layer")


def bounded(candidates):
    """Seconds of the bound, where nothing is known of the set of workers."""
    return searched_bound(candidates, {each.setting.placement.workers: Bound(0.0, "") for each in candidates}).seconds


def with_layer(candidate, layer, factor):
    """A copy whose schedules take so many times as long in a layer."""
    copy = candidate.without_arrays()
    copy.__dict__["schedules"] = {
        name: Schedule(schedule.num_workers, [_scaled(task, layer, factor) for task in schedule.tasks])
        for name, schedule in candidate.schedules.items()
    }
    return copy


def _scaled(task, layer, factor):
    return replace(task, seconds=task.seconds * (factor if task.key.startswith(f"{layer}/") else 1.0))


def test_it_has_the_best_of_every_layer():
    """Of two candidates each is better in another layer: the bound lies below both, as a plan of both would."""
    best = found("skewed", "network", num_workers=3).best
    pair = [with_layer(best, layer, 0.5) for layer in ("l0", "l1")]
    both = with_layer(pair[0], "l1", 0.5)
    apart = [bounded([each]) for each in pair]
    assert bounded(pair) < min(apart)
    assert bounded(pair) == pytest.approx(bounded([both]), rel=1e-6)


def test_a_layer_that_trades_computing_for_sending_gives_neither_away(monkeypatch):
    """A candidate that only sends and one that only computes: a plan does one of the two in every layer."""
    best = found("skewed", "network", num_workers=3).best
    sends, computes = best.without_arrays(), best.without_arrays()
    keys = [op.key for op in best.cycle.programs[best.cycle.order[0]] if op.key.startswith(("l0/", "l1/"))]
    first = [next(key for key in keys if key.startswith(layer)) for layer in ("l0/", "l1/")]
    for candidate, category, lane in ((sends, "communicate", 3), (computes, "compute", 0)):
        tasks = [Task(key, w, category, 1.0, w + lane) for key in first for w in range(3)]
        candidate.__dict__["schedules"] = {name: Schedule(3, tasks) for name in best.shares}
    assert bounded([sends, computes]) == pytest.approx(2.0)  # one layer after the other
    monkeypatch.setattr(certificate, "windows", lambda *_: {})
    assert bounded([sends, computes]) == pytest.approx(1.0)  # each another way, side by side


def test_layers_that_disagree_on_the_rows_between_them_make_no_plan(monkeypatch):
    """A GAT over a slow network makes rows in one layer or is sent them in the next, and is not spared both."""
    slow = {"on": {"bytes_per_s": 1e9}, "model": ModelSpec(kind="gat", hidden_channels=64), "num_workers": 3}
    result = found("skewed", "network", **slow)
    assert any(each.choice("replicas") for each in result.looked_at)
    assert any(not each.choice("replicas") for each in result.looked_at)
    found_s = bounded(result.looked_at)
    assert min(each.epoch_s for each in result.looked_at) <= 1.2 * found_s
    monkeypatch.setattr(certificate._Layers, "agrees", lambda *_: True)
    assert bounded(result.looked_at) < 0.95 * found_s


def limited(period_s):
    """Three workers whose quota has them compute in two fifths of every period."""
    placement = placement_of("network", bytes_per_s=1e9)
    quota = {"cpu_quota": CpuQuota(share=0.4, period_s=period_s), "device_kind": "cpu"}
    profiles = {name: each.model_copy(update=quota) for name, each in placement.profiles.items()}
    return placement.model_copy(update={"profiles": profiles})


@pytest.mark.long
@pytest.mark.parametrize("period_s", [1e-4, 5e-4, 2e-3])
def test_it_holds_under_quotas(period_s):
    """Epochs of many periods, of some, and of parts of one, in the long run."""
    result = found("skewed", placement=limited(period_s), num_workers=3)
    assert len(result.looked_at) > 5
    for each in result.looked_at:
        (schedule,) = each.schedules.values()
        spared_s = 2 * period_s * (1 - 0.4) / epochs_to_play(schedule)  # a run may be short of two pauses
        assert each.epoch_s >= result.searched.seconds * (1 - ROUNDING) - spared_s


def test_what_two_periods_do_not_hold_waits_for_the_third():
    """Processor time of two shares passes at once, a little more not before a pause has; of a mean less is known."""
    share, period_s = np.array([0.4, 1.0]), np.array([0.01, 0.0])
    quotas = certificate._Quotas(share, period_s, are_alike=True)
    for processor_s, least_s in ((0.0, 0.0), (8e-3, 8e-3), (8.1e-3, 14.1e-3), (12e-3, 18e-3), (12.1e-3, 24.1e-3)):
        assert quotas.least_s(processor_s / share) == pytest.approx([least_s, processor_s])
        in_mean = replace(quotas, are_alike=False).least_s(processor_s / share)
        assert (in_mean <= quotas.least_s(processor_s / share) * (1 + ROUNDING)).all()

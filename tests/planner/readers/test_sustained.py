"""In the long run a worker has no more processor time than its quota gives it, and no bound asks for less."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.network import Network
from gnnplan.planner.readers.bound import Bound
from gnnplan.planner.readers.sustained import mean_epoch_s, sustained_bound, sustained_s
from gnnplan.planner.schedule import Quota, Schedule, Task
from gnnplan.planner.search.decide import setting_of
from gnnplan.planner.search.descent import Descent
from gnnplan.planner.search.least import Least
from gnnplan.planner.simulator.engine import compile_schedule, play
from gnnplan.planner.simulator.steady import epochs_to_play
from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.machine import CpuQuota
from tests.planner.search.searched import GRAPHS, SBM, placement_of

MOST_PAUSES = 2  # of a period's rest, that may be missing at the ends of what was played


def sums(quotas, compute_s, sum_s, processor_s):
    """Two workers that compute, and then sum."""
    tasks = [Task("a", w, "compute", compute_s, w) for w in range(2)]
    of_sum = {"group": 0, "processor_s": processor_s}
    tasks += [Task("sum", w, "communicate", sum_s, 2 + w, (w,), charged=w, **of_sum) for w in range(2)]
    return Schedule(2, tasks, {w: quota for w, quota in enumerate(quotas)})


milliseconds = st.floats(0.1, 20.0).map(lambda ms: ms / 1e3)


@settings(max_examples=60, deadline=None)
@given(milliseconds, milliseconds, st.floats(0, 1), st.floats(0.1, 0.9), st.floats(0.1, 0.9))
def test_no_run_sustains_more(compute_s, sum_s, used, first, second):
    """All epochs that are played together take no less than so many times the bound, but for two pauses."""
    quotas = [Quota(first, 0.01), Quota(second, 0.01)]
    schedule = sums(quotas, compute_s, sum_s, used * sum_s)
    count = epochs_to_play(schedule)
    played_s = play(compile_schedule(schedule.repeated(count))).makespan_s
    spared_s = MOST_PAUSES * max(quota.period_s * (1 - quota.share) for quota in quotas)
    assert played_s >= count * sustained_bound([schedule], Bound(0.0, "")).seconds - spared_s


def test_a_sum_that_computes_nothing_fills_the_quota_up():
    """So computing and summing one after another, with all pauses, is no bound: eight and ten take ten."""
    schedule = sums([Quota(0.4, 0.01)] * 2, 5e-3, 8e-3, 0.0)
    assert sustained_s(schedule) == pytest.approx([5e-3, 5e-3])
    assert mean_epoch_s([schedule]) == pytest.approx(10e-3, rel=0.05)


def test_without_quotas_the_bound_stays_as_it_is():
    """Whatever collectives use of the processor."""
    single = Bound(1.0, "network")
    assert sustained_bound([sums([], 5.0, 1.0, 1.0)], single) is single


class Busy(Network):
    """Sums and exchanges use the processor for half the time that they take."""

    def _processor(self, rank, collective, num_bytes):
        del rank, collective
        return Estimate(self.num_workers * num_bytes / 1e9 / 2, 0.0, False)


@pytest.mark.long
@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_candidate_of_a_set_is_below_it_in_the_long_run(data):
    """Random graphs, models, shares and periods; also where sums use the processor."""
    placement = placement_of(data.draw(st.sampled_from(["network", "mixed"])), bytes_per_s=1e9)
    period_s = data.draw(st.sampled_from([1e-4, 2e-3]))
    shares = {name: data.draw(st.sampled_from([0.2, 0.4, 0.8])) for name in placement.profiles}
    quotas = {name: CpuQuota(share=share, period_s=period_s) for name, share in shares.items()}
    profiles = {name: each.model_copy(update={"cpu_quota": quotas[name]}) for name, each in placement.profiles.items()}
    placement = placement.model_copy(update={"profiles": profiles})
    model = ModelSpec(
        kind=data.draw(st.sampled_from(["gcn", "sage"])), hidden_channels=data.draw(st.sampled_from([16, 256]))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gnnplan.planner.readers.schedule.Network", Busy)
        patch.setattr("gnnplan.planner.search.least.Network", Busy)
        base = setting_of(Job(graph=SBM, model=model), placement, GRAPHS["sbm"])
        alone = {
            worker.profile: composed(replace(base, placement=placement.of([rank]), rates_s=(1.0,)))
            for rank, worker in enumerate(placement.workers)
        }
        least_s = Least.of(base, alone).seconds(range(len(placement.workers)))
        found = composed(base)
    for each in found:
        schedule = each.schedules[each.cycle.order[0]]
        count = epochs_to_play(schedule)
        played_s = play(compile_schedule(schedule.repeated(count))).makespan_s
        assert played_s >= count * least_s * (1 - 1e-6) - MOST_PAUSES * period_s
    assert least_s > 0.3 * min(each.epoch_s for each in found)
    assert np.isfinite(least_s)


def composed(setting):
    """All candidates that a descent looks at."""
    descent = Descent(setting)
    descent.run()
    return list(descent.evaluator.looked_at())

"""Workers that go on without each other train as plain torch does that writes out who has what."""

from dataclasses import replace

import pytest

from gnnplan.planner.program.sequential.going_on import IN_STEP
from tests.planner.composition.chosen import Chosen, cycle_of
from tests.planner.program.cases import EXACT, MODELS, SGD, exact, worst
from tests.planner.program.scripted import EPOCHS, WITHOUT, GroupOracle, Script, scripted_cycle, scripted_run

PLAIN = Chosen("gcn", ("halo_exchange",))


def plain_case():
    """A GCN all of whose layers multiply first."""
    return replace(PLAIN.case, orders=(), training=SGD.model_copy(update={"epochs": EPOCHS}))


@pytest.mark.parametrize("absent", ["scale", "reuse"])
@pytest.mark.parametrize("techniques", [(), ("overlap",)], ids=["plain", "overlapped"])
def test_steps_of_some_workers_equal_the_oracle(absent, techniques):
    """Ten epochs with rows that are late, and rounds that one of three workers is missing from, once two on end."""
    chosen = Chosen("gcn", techniques)
    cycle, decision = scripted_cycle(chosen, absent)
    run = scripted_run(chosen, cycle, Script())
    run.train(range(EPOCHS))
    oracle = GroupOracle(plain_case(), decision, SGD.learning_rate)
    for epoch in range(EPOCHS):
        oracle.epoch(epoch)
    assert run.losses == pytest.approx(oracle.losses, rel=EXACT)
    for name, want in oracle.params.items():
        for got in run.params[name]:
            assert worst(got, want) < EXACT


@pytest.mark.parametrize("name", MODELS)
def test_late_rows_equal_the_oracle_of_labels(name):
    """Of every model, rows and gradients that come late; they change the numbers."""
    chosen = Chosen(name, ("partial_reduce",))
    run = chosen.case.play(cycle_of(chosen))
    assert run.off(*chosen.case.oracle()) < EXACT
    assert run.off(*exact(chosen.case.model)) > 1e-4


@pytest.mark.parametrize("name", MODELS)
def test_where_nobody_is_late_nothing_changes(name):
    """A policy that waits for all is halo exchange."""
    chosen = Chosen(name, ("partial_reduce",))
    run = scripted_run(chosen, cycle_of(chosen), IN_STEP)
    run.train(range(SGD.epochs))
    plain = Chosen(name, ("halo_exchange",))
    assert run.losses == plain.case.play(cycle_of(plain)).losses


def test_rows_that_are_too_old_are_refused():
    """A policy may not use what the programs do not allow."""

    class Stubborn(Script):
        def version(self, operator, epoch, sender, receiver):
            return 0

        def members(self, number, num_workers=3):
            return tuple(range(num_workers))

    cycle, decision = scripted_cycle(PLAIN, "scale")
    run = scripted_run(PLAIN, cycle, Stubborn())
    run.train(range(decision.max_staleness + 1))
    with pytest.raises(AssertionError):
        run.train([decision.max_staleness + 1])


def test_the_script_is_worth_playing():
    """Everybody is missing once, somebody twice on end, and messages are late both ways."""
    script = Script()
    missing = [worker for number in WITHOUT for worker in range(3) if worker not in script.members(number)]
    assert set(missing) == {0, 1, 2}
    for back in (False, True):
        ages = {e - script.newest(e, 1, p, w, back) for e in range(1, EPOCHS) for p in range(3) for w in range(3)}
        assert {0, 1, 2} <= ages

"""A technique of another package is composed, printed and played, with no line of this one changed.

That search plans it, the simulator plays it and a report compares it comes with search.
"""

from dataclasses import replace

import pytest

from gnnplan.planner.composition.refusals import refusals
from gnnplan.planner.contracts.technique import Choice
from gnnplan.planner.fidelity import ANY, EXACT
from gnnplan.planner.techniques.registry import GROUP, technique, techniques
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.errors import UserError
from tests.planner.composition import chosen
from tests.planner.program.cases import MODELS, SGD, Case, exact, initial, matrix_of
from tests.runtime.execution.threads import play_on_threads

SOURCE = "tests.planner.toy_replicate:Replicate"
IN_FLOAT64, IN_FLOAT32 = 1e-10, 1e-5


def install(folder, monkeypatch, name, source):
    """Makes a package as pip would leave it: metadata beside a module that is importable."""
    metadata = folder / f"{name}-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {source}\n")
    monkeypatch.syspath_prepend(folder)
    techniques.cache_clear()


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The toy is installed while a test runs."""
    install(tmp_path, monkeypatch, "toy", SOURCE)
    yield tmp_path
    monkeypatch.undo()
    techniques.cache_clear()


def choice(name, **decision):
    return Choice(name, technique(name).Decision(**decision))


def composed(case):
    """On as many workers as the case has, each with the whole graph."""
    return chosen.composed(case, [choice("replicate"), choice("operator_order"), choice("overlap")])


def test_it_is_found_by_its_entry_point(installed):
    """It stands behind the techniques of this package, and its plan is one."""
    assert list(techniques())[-1] == "replicate"
    assert refusals([choice("replicate")], EXACT) == ()
    assert technique("replicate").words(Contract()) == "Every worker trains on the whole graph."


@pytest.mark.usefixtures("installed")
def test_it_is_printed():
    """Its operators stand in the program like all others."""
    program = composed(Case(MODELS["gcn"], 2)).programs["train"]
    lines = [f"{op.key}: {', '.join(op.writes)} = {op.kind}({', '.join(op.reads)})" for op in program]
    assert "reduce/average: reduce = scale(reduce/sum)" in lines


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", MODELS)
def test_it_equals_one_worker(name):
    """Losses, gradients and parameters of two workers are those of one."""
    case = Case(MODELS[name], 2)
    assert case.play(composed(case)).off(*exact(case.model)) < IN_FLOAT64


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", MODELS)
def test_it_runs_on_threads(name):
    """What the runtime plays of it is what the sequential executor plays, for every worker."""
    case = Case(MODELS[name], 2)
    cycle = composed(case)
    run = case.play(cycle)
    start = {each: matrix_of(value) for each, value in initial(case.model).items()}

    def train(executor, rank):
        losses = [float(executor.run("train", epoch)["total_loss"]) for epoch in range(SGD.epochs)]
        return losses, {each: executor.stored[each] for each in start}

    for rank, (losses, parameters) in enumerate(play_on_threads(cycle, run.inputs(), start, train)):
        assert losses == pytest.approx(run.losses, rel=IN_FLOAT32)
        for each, value in parameters.items():
            want = run.executor.stored[each][rank]
            assert float((value - want).norm() / want.norm()) < IN_FLOAT32, each


@pytest.mark.usefixtures("installed")
def test_it_is_refused_beside_another_layout():
    """Its claims are judged by the one function that judges all."""
    both = [Choice("halo_exchange", Contract()), choice("replicate")]
    assert refusals(both, ANY) == ("halo_exchange and replicate both claim layout; leave one of them out",)
    (line,) = refusals([choice("replicate"), choice("replicas")], ANY)
    assert line.startswith("replicas needs halo rows, which no chosen technique offers; choose halo_exchange")


def test_a_name_is_registered_once(installed, monkeypatch):
    """Two packages that bring the same name are an error that names both."""
    install(installed, monkeypatch, "copy", SOURCE)
    with pytest.raises(UserError, match=r"'replicate' is registered twice, by .*toy_replicate:Replicate and by"):
        techniques()


def test_without_its_package_it_is_unknown():
    """A name that nobody registered is an error that lists those there are."""
    with pytest.raises(UserError, match="'replicate' is not known; choose of sparse_features"):
        technique("replicate")


@pytest.mark.usefixtures("installed")
def test_the_comparison_would_see_sums_that_are_no_averages():
    """Without its second hook gradients are twice as great."""
    case = Case(MODELS["gcn"], 2)
    cycle = composed(case)
    summed = cycle.with_programs(lambda program: tuple(map(_by_one, program)))
    assert case.play(summed).off(*exact(case.model)) > 0.1


def _by_one(op):
    return replace(op, attributes={**op.attributes, "factor": 1}) if op.kind == "scale" else op

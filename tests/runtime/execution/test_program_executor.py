"""Projected programs on fast kernels give what the sequential executor gives."""

import pytest
import scipy.sparse as sp
import torch

from gnnplan.planner.contracts.technique import Choice
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.labels import Label
from gnnplan.planner.program.project import project
from gnnplan.runtime.execution.executor import ProgramExecutor
from gnnplan.runtime.execution.peers import Workers
from gnnplan.runtime.execution.sparse_rows import SparseRows
from gnnplan.runtime.execution.table import EXECUTIONS, execution_of
from gnnplan.runtime.recorder import Recorder
from tests.planner.composition.chosen import composed
from tests.planner.program.cases import MODELS, ORDERS, Case, Run, codes, initial, matrix_of, subset
from tests.planner.techniques.feature_slices.sliced import choice, sliced
from tests.runtime.execution.threads import play_on_threads

EPOCHS = 4
ALL = ("split", "once", "refresh", "storage", "overlap")
FLOAT32 = 2e-5  # what float32 and another order of sums leave after a few steps of SGD


def labelled(name: str, num_workers: int = 3):
    """A table of made and kept rows, some of each."""
    model = MODELS[name]
    chosen = {Label.MADE: subset(model, num_workers, 1, 0.3), Label.KEPT: subset(model, num_workers, 2, 0.3)}
    return codes(model, num_workers, chosen)


def inputs_of(run: Run):
    """What the runtime takes for what the sequential executor takes."""
    return {name: [on_device(each) for each in values] for name, values in run.inputs().items()}


def on_device(value: torch.Tensor):
    """CSR as the runtime has it; what is dense as it is."""
    if value.layout != torch.sparse_csr:
        return value
    parts = (value.values(), value.col_indices(), value.crow_indices())
    return SparseRows(
        sp.csr_matrix(tuple(part.numpy() for part in parts), shape=tuple(value.shape)), torch.device("cpu")
    )


def weights_of(case: Case):
    """Every parameter as a matrix, before training."""
    return {name: matrix_of(value) for name, value in initial(case.model).items()}


def alone(case: Case):
    """The executor of a case with one worker, its cycle and its recorder."""
    run, recorder = Run(case, case.cycle()), Recorder(torch.device("cpu"))
    inputs = {name: each[0] for name, each in inputs_of(run).items()}
    weights = {name: weight.float().clone() for name, weight in weights_of(case).items()}
    return ProgramExecutor(project(run.cycle, 0), inputs, weights, recorder, Workers(recorder)), run.cycle, recorder


def losses_and_weights(executor: ProgramExecutor, cycle):
    """Of a few epochs, then the evaluation."""
    order = cycle.order
    losses = [float(next(iter(executor.run(order[e % len(order)], e).values()))) for e in range(EPOCHS)]
    weights = {name: executor.stored[name].clone() for name in cycle.parameters}
    return losses, weights, executor.run("evaluate")["hits"]


def compare(case: Case, cycle: Cycle | None = None, within: float = FLOAT32) -> None:
    """Losses, weights and evaluation on threads against those in one process and float64.

    Args:
        cycle: of the case (None: the one that its passes make).
        within: of the largest relative error.
    """
    cycle = cycle or case.cycle()
    run = Run(case, cycle)
    expected = [float(next(iter(out.values()))[0]) for out in run.executor.train(EPOCHS)]
    found = play_on_threads(cycle, inputs_of(run), weights_of(case), lambda each, _: losses_and_weights(each, cycle))
    weights = {name: list(values) for name, values in run.executor.stored.items() if name in cycle.parameters}
    right = run.executor.run("evaluate")["hits"][0]
    for rank, (losses, trained, hits) in enumerate(found):
        assert losses == pytest.approx(expected, rel=within)
        assert torch.equal(hits.double(), right)
        for name, weight in trained.items():
            exact = weights[name][rank]
            assert float((weight - exact).norm() / exact.norm()) < within, (name, rank)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("num_workers", [1, 2, 4])
def test_plain_programs(name, num_workers, order):
    """Rows exchanged in every layer, none of the passes that save time."""
    compare(Case(MODELS[name], num_workers, ORDERS[order]))


@pytest.mark.long
@pytest.mark.parametrize("passes", [ALL, (*ALL, "late"), ("split", "storage"), ("split", "overlap"), ("refresh",)])
@pytest.mark.parametrize("name", MODELS)
def test_labelled_programs(name, passes):
    """Replicas and kept rows of earlier epochs, with parts, in place and beside each other."""
    compare(Case(MODELS[name], 3, ORDERS["mixed"], labelled(name), passes, interval=3 if "refresh" in passes else 1))


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_wherever_waiting_stands_numbers_are_the_same(name):
    """Beside computing, and waiting late, to the bit."""
    found = []
    for passes in (ALL[:-1], ALL, (*ALL, "late")):
        case = Case(MODELS[name], 3, ORDERS["aggregated"], labelled(name), passes, interval=3)
        run = Run(case, case.cycle())
        found.append(play_on_threads(run.cycle, inputs_of(run), weights_of(case), _trained(run.cycle)))
    for other in found[1:]:
        for (losses, weights, _), (same_losses, same_weights, _) in zip(found[0], other, strict=True):
            assert losses == same_losses
            assert all(torch.equal(weight, same_weights[each]) for each, weight in weights.items())


def _trained(cycle: Cycle):
    """What a worker's executor comes to."""
    return lambda executor, _: losses_and_weights(executor, cycle)


@pytest.mark.long
@pytest.mark.parametrize(
    "passes", [("refresh",), ("split", "storage"), ("split", "once", "refresh", "storage", "overlap")]
)
@pytest.mark.parametrize("name", MODELS)
def test_rows_in_regions_of_hosts(name, passes):
    """Two hosts of two workers, beside rows of their own."""
    model, order = MODELS[name], ORDERS["aggregated" if "once" in passes else "mixed"]
    chosen = {Label.SHARED: subset(model, 4, 1, 0.5), Label.KEPT: subset(model, 4, 2, 0.3)}
    interval = 3 if "refresh" in passes else 1
    compare(Case(model, 4, order, codes(model, 4, chosen), (*passes, "regions"), interval))


@pytest.mark.long
@pytest.mark.parametrize(
    "extra", [(), ("overlap",), ("first_aggregation", "overlap"), ("sparse_features", "first_aggregation")]
)
@pytest.mark.parametrize("name", MODELS)
def test_slices_of_columns(name, extra):
    """Rows turned into columns and back, uneven and with sparse features too."""
    for num_workers, order in ((2, "mixed"), (4, "aggregated")):
        case = Case(MODELS[name], num_workers, ORDERS[order], sparse="sparse_features" in extra)
        compare(case, sliced(case, *extra))
        if case.num_workers == 4:
            compare(case, sliced(case, *extra, num_groups=2))


@pytest.mark.long
@pytest.mark.parametrize("num_workers", [1, 2, 4])
@pytest.mark.parametrize("kind", ["sgc", "appnp", "decoupled_gat"])
def test_decoupled_models(kind, num_workers):
    """Under rows and under slices, with what is alike computed once."""
    case = Case(ModelSpec(kind=kind, num_layers=2, hidden_channels=6, heads=2, num_hops=3, dropout=0.3), num_workers)
    rows = [choice("operator_order"), Choice("halo_exchange", choice("halo_exchange").decision, {"part": case.part})]
    compare(case, composed(case, [*rows, choice("overlap")]))
    compare(case, sliced(case, "overlap"))


@pytest.mark.parametrize("name", ["gcn", "sage"])
def test_labels_of_many_classes(name):
    """Binary cross-entropy."""
    compare(Case(MODELS[name], 2, passes=("split", "storage"), multilabel=True))


def test_every_kind_is_executed():
    """But those that a pass replaces, and stages of mini-batches, which have players of their own."""
    for name, kind in KINDS.items():
        if kind.executed_in:  # a technique's own: its module is imported now
            execution_of(name)
    assert set(EXECUTIONS) == {name for name, kind in KINDS.items() if not kind.is_abstract and not kind.streamed}


def test_every_operator_is_a_span_and_views_are_none():
    """Under its key, once an epoch."""
    executor, cycle, recorder = alone(Case(MODELS["gcn"], 1, passes=("split", "storage")))
    recorder.begin(True)
    executor.run("train")
    recorder.end()
    assert [key for key, *_ in recorder.spans] == [op.key for op in cycle.programs["train"]]


def test_nothing_but_what_stays_is_left():
    """After an epoch only inputs, parameters and cells are there."""
    executor, cycle, _ = alone(Case(MODELS["gcn"], 1, passes=("split", "storage")))
    executor.run("train")
    assert set(executor.stored) == {"x", "y", *cycle.parameters}


def test_features_that_only_the_setup_reads_are_let_go():
    """Where the first aggregation is made once, nothing asks for the features again."""
    executor, _, _ = alone(Case(MODELS["gcn"], 1, ORDERS["aggregated"], passes=("split", "once")))
    assert "x" not in executor.stored
    assert "l0/aggregate" in executor.stored


@pytest.mark.parametrize("order", ["multiplied", "aggregated"])
@pytest.mark.parametrize("name", ["gcn", "sage", "gin", "tagcn"])
def test_sparse_features(name, order):
    """CSR rows are multiplied, or sent and aggregated before training."""
    compare(Case(MODELS[name], 2, ORDERS[order], passes=("split", "once", "storage"), sparse=True))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("order", ["multiplied", "aggregated"])
@pytest.mark.parametrize("name", ["gcn", "sage"])
def test_dropout_of_the_input(name, order, sparse):
    """Drawn anew in every epoch, the same elements on any number of workers."""
    if sparse and order == "aggregated":
        pytest.skip("sparse features are aggregated once, and what is dropped anew is not")
    model = MODELS[name].model_copy(update={"input_dropout": 0.4, "dropout": 0.2})
    compare(Case(model, 3, ORDERS[order], passes=("split", "storage"), sparse=sparse))


def test_programs_that_are_prepared_are_not_bound_again(monkeypatch):
    """So no epoch takes that time, be it the first that plays its program."""
    model = MODELS["gcn"]
    executor, cycle, _ = alone(Case(model, 1, ORDERS["mixed"], codes(model, 1, {}), ALL))
    executor.prepare(cycle.order)
    monkeypatch.setattr(executor, "_bind", None)
    assert float(executor.run(cycle.order[0])["loss"]) > 0

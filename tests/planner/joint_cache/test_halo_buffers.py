"""What is kept stays from epoch to epoch and is counted; `tests/runtime/test_halo_cache.py` has it to the byte."""

import pytest

from gnnplan.planner.buffers import epoch_buffers, filling_buffers
from gnnplan.planner.job import ModelSpec
from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import LayerDecision, build_program
from gnnplan.profiles.kernels.pool import block_bytes

SHAPE = WorkerShape(
    num_local=1000, num_halo=500, num_sent=400, local_edges=9000, remote_edges=900, num_train=600,
    hop_entries=(32_000,) * 4,
)  # fmt: skip
WHOLE = {"num_rows": (500, 400), "fresh_counts": ((0, 0), (0, 0))}
PART = {"num_rows": (300, 250), "fresh_counts": ((0, 150), (200, 0))}
CASES = [(kind, order) for kind in ("gcn", "sage", "gin", "tagcn") for order in ("multiply_first", "aggregate_first")]


def program_of(kind, order):
    """Three layers, 32 features to 8 classes."""
    layers = (LayerDecision(op_order=order),) * 3
    model = ModelSpec(kind=kind, num_layers=3, hidden_channels=64, num_hops=2)
    return build_program(model, layers, num_features=32, num_classes=8, sparse_input=False)


@pytest.mark.parametrize("rows", [WHOLE, PART])
@pytest.mark.parametrize(("kind", "order"), [*CASES, ("gat", "multiply_first")])
def test_kept_rows_and_gradients_are_there_at_the_peak(kind, order, rows):
    """More is alive with a cache than without, by what it keeps less at most the halo it need not receive anew."""
    program, cache = program_of(kind, order), CacheDecision(refresh_interval=4, **rows)
    plain, kept = (epoch_buffers(program, SHAPE, 8, 2, which) for which in (NO_CACHE, cache))
    assert plain.live_bytes == kept.live_bytes == 0
    steps = [step for step in program.steps if cache.keeps(step) and step.op in ("aggregate", "exchange")]
    sent = 400 - sum(cache.fresh_counts[0])
    held = sum(4 * step.in_width * (cache.num_rows[0] + (0 if step.fixed else sent)) for step in steps)
    widest = max(step.in_width for step in steps)
    assert kept.peak_bytes >= plain.peak_bytes + held - 4 * widest * (500 + 400)


def test_features_alone_are_kept_as_they_were_received():
    """At r = 1 the fixed halo takes the place of the one received in every epoch, for as long as training lasts."""
    program, cache = program_of("gcn", "aggregate_first"), CacheDecision(**WHOLE)
    plain, kept = (epoch_buffers(program, SHAPE, 8, 2, which) for which in (NO_CACHE, cache))
    assert kept.peak_bytes == plain.peak_bytes + 4 * 32 * 500


@pytest.mark.parametrize(("rows", "copied"), [(WHOLE, 0), (PART, 300)])
@pytest.mark.parametrize("overlap", [False, True])
def test_filling_a_feature_cache_takes_what_is_sent_received_and_aggregated(rows, copied, overlap):
    """All of it in a CPU's pool; at once the sums beside what was received, with overlap also beside what is sent."""
    program, cache = program_of("gcn", "aggregate_first"), CacheDecision(**rows)
    buffers = filling_buffers(program, SHAPE, 2, cache, 0, overlap=overlap)
    sent, received, summed, kept = (block_bytes(4 * 32 * number) for number in (400, 500, 1000, copied))
    assert buffers.held_bytes == sent + received + summed + kept
    assert buffers.peak_bytes == received + summed + (max(sent, kept) if overlap else kept)


def test_nothing_is_filled_where_nothing_fixed_is_kept():
    """Embeddings are sent in the first epoch."""
    embeddings = CacheDecision(refresh_interval=4, **WHOLE)
    assert filling_buffers(program_of("gcn", "multiply_first"), SHAPE, 2, embeddings, 0).held_bytes == 0
    assert filling_buffers(program_of("gcn", "aggregate_first"), SHAPE, 2, NO_CACHE, 0).held_bytes == 0

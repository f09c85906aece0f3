"""GPUs that are only pretended: the benchmark's quick form meets its goals, and what it watches for is noticed."""

from unittest import mock

import pytest
import torch

from benchmarks import fake_cuda
from benchmarks._exactness_cases import Case
from benchmarks._fake_cuda_calls import Stream, current_stream, on_device, pretended_cuda, stream
from benchmarks._fake_device import FakeDevice, FakeTensor
from benchmarks._fake_memory import rounded_bytes
from benchmarks._fake_plans import planned
from benchmarks._fake_training import train_on_cpu, train_on_fakes
from gnnplan.planner.program.kinds import KINDS
from gnnplan.profiles.kernels.activation import keep_mask
from gnnplan.runtime.execution.table import EXECUTIONS

GPU = torch.device("cuda", 0)


@pytest.fixture
def device():
    """A device of this thread."""
    with pretended_cuda(), on_device(FakeDevice(GPU)) as device:
        yield device


@pytest.fixture(scope="module")
def plan():
    """Two workers whose rows travel beside their computing."""
    return planned(Case("gcn", ("overlap",)), 2, "v100")


def seen_with(plan, kind, spoil):
    """What is seen where an operator's result is spoilt."""
    bind = EXECUTIONS[kind]

    def spoilt(c, op):
        run = bind(c, op)
        return lambda *reads: spoil(run(*reads))

    with mock.patch.dict(EXECUTIONS, {kind: spoilt}):
        return fake_cuda.row_of(plan, train_on_fakes(plan), train_on_cpu(plan))


NOT_OF_FIXED_MODELS = {
    "scores", "product", "columns", "concat", "running_statistics",
    *(f"{name}{half}" for name in ("elementwise", "layer_norm", "batch_norm", "maximum", "moments", "statistics")
      for half in ("", "_grad")),
}  # fmt: skip
"""Kinds that only modules of one's own have, and those of metrics that no case asks for."""


@pytest.mark.long
def test_quick_form_meets_its_goals():
    """All that the fixed models have is played, in both layouts; nothing lies or waits wrongly; bytes are planned."""
    result = fake_cuda.main(quick=True)
    of_techniques = {kind for kind in result["kinds_not_played"] if KINDS[kind].executed_in}  # where these are imported
    assert {*result["kinds_not_played"]} - of_techniques == NOT_OF_FIXED_MODELS
    assert (result["wrong_device"], result["unordered"]) == (0, 0)
    assert [row["faults"] for row in result["rows"] if row["faults"]] == []
    assert result["synchronisations"] == 0
    assert abs(result["worst_memory_error"]) <= 0.05
    assert result["worst_loss_error"] < 1e-5
    assert {row["num_workers"] for row in result["rows"]} == {1, 2, 3, 4}


def test_waiting_in_an_operator_is_noticed(plan):
    """One number read by the host, in every epoch of every worker."""

    def read(made):
        made[0].item()
        return made

    row = seen_with(plan, "loss", read)
    assert row["synchronisations"] == 2
    assert row["faults"] == ["loss waits: aten::_local_scalar_dense"]


def test_a_result_on_the_host_is_noticed():
    """As what the next operator is given, and as a copy that the host waits for."""
    row = seen_with(planned(Case("gcn"), 1, "v100"), "loss", lambda made: (made[0], made[1].cpu()))
    assert (row["wrong_device"] > 0, row["synchronisations"]) == (True, 1)
    assert any("does not lie in the tier" in words for words in row["faults"])
    assert any("with tensors on cpu" in words for words in row["faults"])


def test_collectives_take_their_own_gpu_alone(plan):
    """Rows on the host are not sent."""
    with pytest.raises(AssertionError, match="own GPU alone"):
        seen_with(plan, "activate", lambda z: z.cpu())


def test_a_stream_that_does_not_wait_is_noticed(plan):
    """Rows are read, or freed, though nothing says that they have come."""
    with mock.patch.object(Stream, "wait_stream", return_value=None):
        seen = train_on_fakes(plan)
    assert all(worker.unordered for worker in seen)
    assert any("may still write" in words for worker in seen for words in worker.unordered)


def test_a_tensor_that_is_freed_too_early_is_noticed(device):
    """What another stream still reads must live until its own stream has waited."""
    x, side = torch.zeros(8, device=GPU), Stream(GPU)
    side.wait_stream(current_stream(GPU))
    with stream(side):
        y = x + 1
    del x
    assert device.unordered == [": memory is freed that another stream may still use"]
    current_stream(GPU).wait_stream(side)
    del y


def test_bytes_are_counted_in_blocks(device):
    """Views take none, and what is dropped is given back."""
    x = torch.zeros(100, 3, device=GPU)
    assert (x.device, isinstance(x[2:], FakeTensor)) == (GPU, True)
    assert device.memory.live_bytes == rounded_bytes(1200) == 1536
    y = x.t()[1:] * 2
    assert device.memory.live_bytes == 1536 + 1024
    del x
    assert device.memory.live_bytes == 1024
    del y
    assert (device.memory.live_bytes, device.memory.peak_bytes) == (0, 2560)


def test_numbers_are_those_of_a_cpu(device):
    """Also of dropout's integer arithmetic, of which two matrices live at once."""
    rows, columns = torch.arange(512)[:, None], torch.arange(64)
    right = keep_mask(5, rows, columns, 64, 0.3)
    places = rows.to(GPU), columns.to(GPU)
    before = device.memory.peak_bytes = device.memory.live_bytes
    found = keep_mask(5, *places, 64, 0.3)
    assert torch.equal(found.numbers, right)
    assert device.memory.peak_bytes - before <= 2 * 8 * 512 * 64 + 8 * 512


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.nonzero(),
        lambda x: x.tolist(),
        lambda x: x[x > 0],
        lambda x: float(x.sum()),
        lambda x: x.long().repeat_interleave(x.long()),
        lambda x: x.cpu(),
        lambda x: torch.zeros(4).to(GPU),
        lambda x: torch.zeros(4).copy_(x),
        lambda x: torch.cuda.synchronize(),
    ],
)
def test_what_waits_is_counted_once(device, operation):
    """Whatever makes host and device wait for each other."""
    x = torch.ones(4, device=GPU)
    operation(x)
    assert device.waits.total() == 1


def test_numpy_is_refused(device):
    """As torch refuses it."""
    with pytest.raises(TypeError, match="copy it to the host first"):
        torch.ones(4, device=GPU).numpy()

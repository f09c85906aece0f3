"""Each operator of runtime/operators.py has the values and gradients of its dense equivalent under autograd."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.utils import softmax

from gnnplan.planner.steps import Step
from gnnplan.profiles.kernels.activation import keep_mask
from gnnplan.profiles.kernels.attention import EdgeBlock
from gnnplan.profiles.kernels.sparse import csr_tensor
from gnnplan.runtime.comm import HaloExchanger
from gnnplan.runtime.operators import (
    Activate,
    Aggregate,
    Attend,
    Block,
    Combine,
    CombineSparse,
    Multiply,
    MultiplySparse,
    SparseInput,
)
from gnnplan.runtime.recorder import Recorder

N, IN, OUT = 12, 5, 3


@pytest.fixture
def recorder():
    made = Recorder(torch.device("cpu"))
    made.begin(True)
    return made


def leaves(*shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator).requires_grad_() for shape in shapes]


def step(op, **changes):
    fields = {"inputs": ("a",), "outputs": ("b",), "in_width": IN, "out_widths": (OUT,)}
    return Step(f"l0/{op}", op, **{**fields, **changes})


def check(outs, expected, tensors, recorder, keys):
    """Same outputs, same gradients at all tensors under the same random upstream gradients, right task keys."""
    outs, expected = [value if isinstance(value, tuple) else (value,) for value in (outs, expected)]
    generator = torch.Generator().manual_seed(9)
    upstream = [torch.randn(value.shape, generator=generator) for value in expected]
    for out, wanted in zip(outs, expected, strict=True):
        torch.testing.assert_close(out, wanted, rtol=1e-5, atol=1e-5)
    grads = torch.autograd.grad(outs, tensors, [g.clone() for g in upstream])
    for grad, wanted in zip(grads, torch.autograd.grad(expected, tensors, upstream), strict=True):
        torch.testing.assert_close(grad, wanted, rtol=1e-4, atol=1e-5)
    assert [span[0] for span in recorder.spans] == keys


def both(name):
    return [f"l0/{name}/forward", f"l0/{name}/backward"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_multiply(recorder, count):
    """One input times several weights; the gradients at the input are summed."""
    x, *weights = leaves((N, IN), *[(OUT + k, IN) for k in range(count)])
    outs = Multiply.apply(step("multiply"), recorder, x, *weights)
    check(outs, tuple(x @ weight.t() for weight in weights), [x, *weights], recorder, both("multiply"))


def test_multiply_skips_the_gradient_of_features():
    """Input features that need no gradient get none, the weight still does."""
    recorder = Recorder(torch.device("cpu"))
    x, weight = leaves((N, IN), (OUT, IN))
    (out,) = Multiply.apply(step("multiply"), recorder, x.detach(), weight)
    torch.testing.assert_close(torch.autograd.grad(out.sum(), weight)[0], x.detach().sum(0).expand(OUT, IN))


def sparse_features(seed):
    matrix = sp.csr_matrix(sp.random(N, IN, 0.4, format="csr", dtype=np.float32, random_state=seed))
    return SparseInput(csr_tensor(matrix), csr_tensor(matrix.T.tocsr())), torch.from_numpy(matrix.toarray())


@pytest.mark.parametrize("count", [1, 3])
def test_multiply_sparse(recorder, count):
    """Sparse features times weights equal the dense product, and so do the weights' gradients."""
    x, dense = sparse_features(1)
    weights = leaves(*[(OUT, IN)] * count)
    outs = MultiplySparse.apply(step("multiply"), recorder, x, *weights)
    check(outs, tuple(dense @ weight.t() for weight in weights), weights, recorder, both("multiply"))


@pytest.mark.parametrize("count", [1, 2, 4])
def test_combine(recorder, count):
    """sum_k x_k W_k^T with a gradient at every input and weight."""
    tensors = leaves(*[(N, IN)] * count, *[(OUT, IN)] * count)
    expected = sum(x @ weight.t() for x, weight in zip(tensors[:count], tensors[count:], strict=True))
    check(Combine.apply(step("combine"), recorder, *tensors), expected, tensors, recorder, both("combine"))


def test_combine_gives_constant_inputs_no_gradient(recorder):
    """Of a constant and a trained input only the latter gets a gradient, and it is the right one."""
    x0, x1, w0, w1 = leaves((N, IN), (N, IN), (OUT, IN), (OUT, IN))
    out = Combine.apply(step("combine"), recorder, x0.detach(), x1, w0, w1)
    check(out, x0.detach() @ w0.t() + x1 @ w1.t(), [x1, w0, w1], recorder, both("combine"))


@pytest.mark.parametrize("count", [1, 3])
def test_combine_sparse(recorder, count):
    """Sparse hops times weights, summed."""
    pairs = [sparse_features(seed) for seed in range(count)]
    weights = leaves(*[(OUT, IN)] * count)
    out = CombineSparse.apply(step("combine"), recorder, tuple(pair[0] for pair in pairs), *weights)
    expected = sum(pair[1] @ weight.t() for pair, weight in zip(pairs, weights, strict=True))
    check(out, expected, weights, recorder, both("combine"))


@pytest.fixture
def block(recorder):
    """A directed block of one worker, and the same matrix dense."""
    matrix = sp.csr_matrix(sp.random(N, N, 0.3, format="csr", dtype=np.float32, random_state=4))
    nothing = csr_tensor(sp.csr_matrix((N, 0), dtype=np.float32))
    alone = HaloExchanger(torch.empty(0, dtype=torch.int64), [0], [0], N, recorder)
    made = Block(csr_tensor(matrix), csr_tensor(matrix.T.tocsr()), nothing, nothing, alone)
    return made, torch.from_numpy(matrix.toarray())


def test_aggregate(recorder, block):
    """A x with the transposed product backward."""
    (x,) = leaves((N, IN))
    out = Aggregate.apply(step("aggregate"), block[0], x, None)
    check(out, block[1] @ x, [x], recorder, both("aggregate"))


def test_aggregate_onto_a_base(recorder, block):
    """A x + base, with the upstream gradient at the base unchanged; the base's storage is reused."""
    x, base = leaves((N, IN), (N, IN))
    work = base * 1.0  # a leaf cannot be overwritten
    pointer = work.data_ptr()
    out = Aggregate.apply(step("aggregate", base="c"), block[0], x, work)
    assert out.data_ptr() == pointer
    check(out, block[1] @ x + base, [x, base], recorder, both("aggregate"))


def test_aggregate_passes_its_input_on(recorder, block):
    """With `keep` the input comes out again, and the gradients of both uses meet at it."""
    (x,) = leaves((N, IN))
    outs = Aggregate.apply(step("aggregate", keep="c"), block[0], x, None)
    check(outs, (block[1] @ x, x * 1.0), [x], recorder, both("aggregate"))


def test_aggregate_of_features_has_no_backward_task(recorder, block):
    """Where the input needs no gradient nothing is computed backward, only the base's gradient passes."""
    x, base = leaves((N, IN), (N, IN))
    out = Aggregate.apply(step("aggregate", base="c"), block[0], x.detach(), base * 1.0)
    check(out, block[1] @ x.detach() + base, [base], recorder, ["l0/aggregate/forward"])


@pytest.mark.parametrize("averages", [False, True])
def test_attend(recorder, averages):
    """GAT's attention over halo rows and repeated edges, heads side by side or averaged."""
    heads, channels, halo = 2, 3, 4
    rng = np.random.default_rng(3)
    target, source = np.sort(rng.integers(0, N - 1, 60)), rng.integers(0, N + halo, 60)  # the last row has no edge
    indptr = np.searchsorted(target, np.arange(N + 1)).astype(np.int32)
    matrix = sp.csr_matrix((np.ones(60, np.float32), source.astype(np.int32), indptr), shape=(N, N + halo))
    q, att_source, att_target = leaves((N + halo, heads * channels), (1, heads, channels), (1, heads, channels))
    width = channels if averages else heads * channels
    spec = step("attend", heads=heads, in_width=heads * channels, out_widths=(width,))
    out = Attend.apply(spec, EdgeBlock.from_csr(matrix), recorder, q, att_source, att_target)

    h, target, source = q.view(-1, heads, channels), torch.from_numpy(target), torch.from_numpy(source)
    score = (h * att_source).sum(-1)[source] + (h * att_target).sum(-1)[target]
    alpha = softmax(torch.nn.functional.leaky_relu(score, 0.2), target, num_nodes=N)
    expected = torch.zeros(N, heads, channels).index_add(0, target, alpha[:, :, None] * h[source])
    expected = expected.mean(1) if averages else expected.flatten(1)
    check(out, expected, [q, att_source, att_target], recorder, both("attend"))


@pytest.mark.parametrize(("relu", "dropout"), [(True, 0.0), (True, 0.5), (False, 0.0)])
def test_activate(recorder, relu, dropout):
    """Bias, ReLU and dropout in place, with gradients at the input and the bias."""
    z, bias = leaves((N, OUT), (OUT,))
    vertices = torch.arange(N) * 11
    work = z * 1.0
    out = Activate.apply(step("activate", relu=relu), recorder, work, bias, dropout, 77, vertices)
    assert out.data_ptr() == work.data_ptr()
    expected = (z + bias).relu() if relu else z + bias
    if dropout:
        expected = expected * keep_mask(77, vertices[:, None], torch.arange(OUT), OUT, dropout) / (1 - dropout)
    check(out, expected, [z, bias], recorder, both("activate"))

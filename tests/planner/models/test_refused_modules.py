"""What cannot be shared out is refused with the line of the module and why; nothing is guessed."""

import random
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.utils import degree

from gnnplan.planner.models.module_forward import check_float32
from gnnplan.profiles.errors import UserError
from tests.planner.models.own_modules import WIDTH, Plain
from tests.planner.models.trained_modules import forward_of, made
from tests.planner.program.cases import small_graph


class Base(nn.Module):
    """A layer, something, and a head."""

    def __init__(self, num_features, num_classes):
        super().__init__()
        self.conv, self.head = pyg.GCNConv(num_features, WIDTH), nn.Linear(WIDTH, num_classes)
        self.norm, self.weight = pyg.GraphNorm(WIDTH), nn.Parameter(torch.ones(WIDTH))


class Pooling(Base):
    def forward(self, x, edge_index):
        x = self.conv(x, edge_index)
        return self.head(x + pyg.global_mean_pool(x, None))  # here


class Attention(Base):
    def forward(self, x, edge_index):
        x = self.conv(x, edge_index)
        return self.head(torch.softmax(x @ x.t(), dim=1) @ x)  # here


class Degrees(Base):
    def forward(self, x, edge_index):
        scale = degree(edge_index[0])  # here
        return self.head(self.conv(x, edge_index) * scale)


class WholeGraph(Base):
    def forward(self, x, edge_index):
        x = self.conv(x, edge_index)
        return self.head(self.norm(x))  # here


class Branching(Base):
    def forward(self, x, edge_index):
        x = self.conv(x, edge_index)
        if x.sum() > 0:  # here
            x = -x
        return self.head(x)


class Loose(Base):
    def forward(self, x, edge_index):
        return self.head(self.conv(x, edge_index) * self.weight)  # here


class Below(Base):
    def forward(self, x, edge_index):
        x = self.conv(x, edge_index)
        return self.head(torch.cat([x, x], dim=0))  # here


class Reversed(Base):
    def forward(self, x, edge_index):
        return self.head(self.conv(x, edge_index.flip(0)))  # here


class Dropping(Base):
    def forward(self, x, edge_index):
        x = nn.functional.dropout(self.conv(x, edge_index), 0.5)  # here
        return self.head(x)


class OfFeatures(Base):
    def forward(self, x, edge_index):
        x += x  # here
        return self.head(self.conv(x, edge_index))


class Activated(Base):
    def forward(self, x, edge_index):
        x = nn.functional.leaky_relu(x, 0.3, True)  # here
        return self.head(self.conv(x, edge_index))


class Rectified(Base):
    def forward(self, x, edge_index):
        again = self.again(x)
        x = nn.functional.relu_(x)  # here
        return self.head(self.conv(x, edge_index) + again)

    def __init__(self, num_features, num_classes):
        super().__init__(num_features, num_classes)
        self.again = nn.Linear(num_features, WIDTH)


class Compounded(Base):
    def forward(self, x, edge_index):
        x = nn.functional.relu_(x)
        x += x  # here
        return self.head(self.conv(x, edge_index))


class Placed(Base):
    def __init__(self, num_features, num_classes):
        super().__init__(num_features, num_classes)
        self.register_buffer("place", torch.ones(20, WIDTH))

    def forward(self, x, edge_index):
        return self.head(torch.cat([self.conv(x, edge_index), self.place], dim=1))  # here


class Shifted(Placed):
    def forward(self, x, edge_index):
        return self.head(self.conv(x, edge_index) + self.place)  # here


class Function(Base):
    def __init__(self, num_features, num_classes):
        super().__init__(num_features, num_classes)
        self.conv = pyg.GINConv(lambda x: x)

    def forward(self, x, edge_index):
        return self.head(self.conv(x, edge_index))  # here


class Reparametrized(Base):
    def __init__(self, num_features, num_classes):
        super().__init__(num_features, num_classes)
        self.first = nn.Linear(num_features, num_features)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its successor makes another class of the layer
            nn.utils.weight_norm(self.first)

    def forward(self, x, edge_index):
        return self.head(self.conv(self.first(x), edge_index))  # here


class Kept(Base):
    def __init__(self, num_features, num_classes):
        super().__init__(num_features, num_classes)
        self.first, self.conv = nn.Linear(num_features, WIDTH), pyg.SGConv(WIDTH, WIDTH, K=2, cached=True)

    def forward(self, x, edge_index):
        return self.head(self.conv(self.first(x), edge_index))  # here


LINES = {
    Dropping: r"dropout: it drops in evaluation too; give it training = self.training",
    OfFeatures: r"iadd: it would change the graph's features themselves",
    Rectified: r"relu_: it would change the graph's features themselves",
    Compounded: r"iadd: it would change the graph's features themselves",
    Activated: r"leaky_relu: it would change the graph's features themselves",
    Placed: r"cat: only rows of vertices are put side by side",
    Shifted: r"add: rows plus a number have no operator",
    Function: r"conv \(GINConv\): ",
    Reparametrized: r"first \(Linear\): first\.weight is made by something else in each call",
    Kept: r"conv \(SGConv\): cached = True keeps the rows of the first call",
    Pooling: r"(dim|mean): it is no known function of rows by themselves; what mixes rows \(pooling",
    Attention: r"t: it is no known function of rows by themselves",
    Degrees: r"getitem: it computes from the whole edge_index",
    WholeGraph: r"norm \(GraphNorm\): it is no known function of rows by themselves",
    Branching: r"Branching cannot be traced: .*; forward must make the same calls whatever the numbers are",
    Loose: r"weight: a parameter outside a layer has no operator; put it into a Linear or a norm",
    Below: r"cat: dim = 0 puts rows below rows",
    Reversed: r"flip: it computes from the whole edge_index",
}


@pytest.mark.parametrize("kind", LINES)
def test_the_line_is_named(kind):
    """In the user's file, not in a library's."""
    with pytest.raises(UserError) as refused:
        forward_of(made(kind), small_graph())
    first, message = 1, str(refused.value)
    lines = Path(__file__).read_text().splitlines()
    start = next(number for number, line in enumerate(lines, first) if line.startswith(f"class {kind.__name__}("))
    marked = next(number for number, line in enumerate(lines, first) if number > start and line.endswith("# here"))
    assert re.match(rf"{re.escape(__file__)}:{marked}: {LINES[kind]}", message), message
    assert "\n" not in message


OPTIONS = {
    "improved = True": lambda f, c: pyg.GCNConv(f, c, improved=True),
    "dropout = 0.4": lambda f, c: pyg.GATConv(f, c, dropout=0.4),
    "flow = 'target_to_source'": lambda f, c: pyg.GCNConv(f, c, flow="target_to_source"),
}


@pytest.mark.parametrize("words", OPTIONS)
def test_options_are_named(words):
    """Of a known layer those that have no operators, and cannot be shared out by rows either."""
    with pytest.raises(UserError, match=rf"own_modules.py:\d+: convs\.0 \(\w+\): {re.escape(words)} is not supported"):
        forward_of(made(lambda f, c: Plain([OPTIONS[words](f, c)])), small_graph())


class Drawing(Base):
    def forward(self, x, edge_index):
        x = self.conv(x, edge_index)
        return self.head(x * float(torch.rand(1)))


class Chance(Base):
    def forward(self, x, edge_index):
        x = self.conv(x, edge_index)
        return self.head(-x if random.random() > 0.5 else x)


class Noise(Base):
    def forward(self, x, edge_index):
        return self.head(self.conv(x, edge_index) * float(np.random.rand()))  # noqa: NPY002 - as people write it


@pytest.mark.parametrize("kind", [Drawing, Chance, Noise])
def test_a_forward_that_draws_is_refused(kind):
    """What it would draw anew in each epoch would be drawn once."""
    with pytest.raises(UserError, match=rf"{Path(__file__).name}:\d+: forward of {kind.__name__} draws random numbers"):
        forward_of(made(kind), small_graph())


class Frozen(Base):
    def __init__(self, num_features, num_classes, training):
        super().__init__(num_features, num_classes)
        self.norm, self.kept = nn.BatchNorm1d(WIDTH), training

    def train(self, mode=True):
        super().train(mode)
        self.norm.train(self.kept)
        return self

    def forward(self, x, edge_index):
        return self.head(self.norm(self.conv(x, edge_index)))


@pytest.mark.parametrize(
    ("kept", "words"), [(False, "evaluation while the model trains"), (True, "training while the model is evaluated")]
)
def test_a_norm_in_a_mode_of_its_own_is_refused(kept, words):
    """Its statistics would be others than torch's."""
    with pytest.raises(UserError, match=f"norm stays in {words}"):
        forward_of(made(lambda f, c: Frozen(f, c, kept)), small_graph())


class GraphMode(Base):
    def __init__(self, num_features, num_classes):
        super().__init__(num_features, num_classes)
        self.norm = pyg.LayerNorm(WIDTH)

    def forward(self, x, edge_index):
        return self.head(self.norm(self.conv(x, edge_index)))


def test_other_norms_are_named():
    """And what to take instead, where there is something."""
    with pytest.raises(UserError, match="mode = 'graph' normalizes over all rows together; take mode = 'node'"):
        forward_of(made(GraphMode), small_graph())


class Extra(Base):
    def forward(self, x, edge_index, edge_attr):
        return self.head(self.conv(x, edge_index))


class Two(Base):
    def forward(self, x, edge_index):
        x = self.conv(x, edge_index)
        return self.head(x), x


def test_arguments_and_results_are_named():
    """Forward takes (x, edge_index) and makes one value, as wide as there are classes."""
    graph = small_graph()
    with pytest.raises(UserError, match="forward of Extra also takes 'edge_attr'"):
        forward_of(made(Extra), graph)
    with pytest.raises(UserError, match="Two: forward must return one value"):
        forward_of(made(Two), graph)
    with pytest.raises(UserError, match="Plain makes 7 columns, and the graph has 3 classes"):
        forward_of(made(lambda f, c: Plain([pyg.GCNConv(f, 7)])), graph)


def test_parameters_are_there_and_trained():
    """Lazy ones have no shape, and frozen ones would be trained."""
    graph = small_graph()
    with pytest.raises(UserError, match="has no shape yet"):
        forward_of(made(lambda f, c: Plain([pyg.GCNConv(-1, c)])), graph)
    module = made(lambda f, c: Plain([pyg.GCNConv(f, c)]))
    module.convs[0].bias.requires_grad_(False)
    with pytest.raises(UserError, match=r"convs\.0\.bias is frozen"):
        forward_of(module, graph)


def test_the_mode_is_left_as_it_was():
    """Tracing looks at training and evaluation, and changes nothing."""
    module = made(lambda f, c: Plain([pyg.GCNConv(f, c)])).eval()
    forward_of(module, small_graph())
    assert not any(each.training for each in module.modules())


class Logarithms(Base):
    def forward(self, x, edge_index):
        return self.head(self.conv(x, edge_index)).log_softmax(dim=-1)


def test_the_logarithms_of_a_softmax_are_for_cross_entropy_alone():
    """It takes them again, which changes nothing; every other loss would be given logits in their place."""
    forward_of(made(Logarithms), small_graph())
    with pytest.raises(UserError, match=r"log_softmax: it is known before the loss cross_entropy alone"):
        forward_of(made(Logarithms), small_graph(), loss="nll.py:loss")


class Detached(Base):
    def forward(self, x, edge_index):
        with torch.no_grad():
            x = self.conv(x, edge_index)  # here
        return self.head(x)


class Counting(Base):
    def __init__(self, num_features, num_classes):
        super().__init__(num_features, num_classes)
        self.step = 0

    def forward(self, x, edge_index):
        self.step += 1
        return self.head(self.conv(x, edge_index) * min(1.0, self.step / 100))


class Buffered(Base):
    def __init__(self, num_features, num_classes):
        super().__init__(num_features, num_classes)
        self.register_buffer("step", torch.zeros(1))

    def forward(self, x, edge_index):
        self.step += 1
        return self.head(self.conv(x, edge_index) * float(self.step))


class Rebound(Buffered):
    def forward(self, x, edge_index):
        self.step = self.step + 1
        return self.head(self.conv(x, edge_index) * float(self.step))


class OwnGenerator(Base):
    def __init__(self, num_features, num_classes):
        super().__init__(num_features, num_classes)
        self.random = np.random.default_rng(0)

    def forward(self, x, edge_index):
        return self.head(self.conv(x, edge_index) * float(self.random.random()))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Detached, "no_grad is not known"),
        (Counting, "forward of Counting changes its step"),
        (Buffered, "forward of Buffered changes its step"),
        (OwnGenerator, "forward of OwnGenerator changes its random"),
        (Rebound, "forward of Rebound changes its step"),
    ],
)
def test_what_is_not_a_function_of_its_rows_is_refused(kind, words):
    """Its line is named, and the module is left as it was."""
    module = made(kind)
    before = {name: each.clone() for name, each in module.state_dict().items()}
    with pytest.raises(UserError, match=rf"{Path(__file__).name}:\d+: .*{words}"):
        forward_of(module, small_graph())
    assert getattr(module, "step", 0) == 0
    if kind is OwnGenerator:
        assert module.random.bit_generator.state == np.random.default_rng(0).bit_generator.state
    assert all(torch.equal(each, before[name]) for name, each in module.state_dict().items())


class Remembering(Base):
    """What it has and does not change is its own affair."""

    def __init__(self, num_features, num_classes):
        super().__init__(num_features, num_classes)
        self.best, self.norm = float("nan"), nn.Identity()
        self.register_buffer("seen", torch.tensor([True, False]))
        self.register_buffer("adjacency", torch.eye(3).to_sparse())

    def forward(self, x, edge_index):
        return self.head(self.norm(self.conv(x, edge_index)))


def test_what_stays_as_it_is_is_taken():
    """Numbers that are none, masks, sparse tensors; and hooks of a container, which are traced."""
    module = made(Remembering)
    forward_of(module, small_graph())


@pytest.mark.parametrize(
    "hooked",
    [
        lambda module, hook: module.convs[0].register_forward_hook(hook),
        lambda module, hook: module.convs[0].register_message_forward_hook(hook),
        lambda module, hook: module.register_forward_pre_hook(hook),
    ],
    ids=["layer", "message", "module"],
)
def test_hooks_are_refused(hooked):
    """The equations of a layer stand in for its own code, and know none."""
    module = made(lambda f, c: Plain([pyg.GCNConv(f, c)]))
    hooked(module, lambda *_: None)
    with pytest.raises(UserError, match="has hooks"):
        forward_of(module, small_graph())


def test_other_types_than_float32_are_refused():
    """With what to call."""
    with pytest.raises(UserError, match=r"is torch.float64; call .float\(\)"):
        check_float32(made(lambda f, c: Plain([pyg.GCNConv(f, c)])).double())

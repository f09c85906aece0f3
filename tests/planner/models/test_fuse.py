"""Neighbouring operators become one where nobody else reads what lies between them."""

import pytest
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

from gnnplan.planner.techniques.operator_order.expand import expand_filters
from tests.planner.models.own_modules import WIDTH, Plain
from tests.planner.models.trained_modules import forward_of, made
from tests.planner.program.cases import MODELS, Case, small_graph


def kinds(build, program="train"):
    return [op.kind for op in forward_of(made(build), small_graph()).programs[program]]


class Dropping(nn.Module):
    """Bias, ReLU and dropout; what lies between may be read again."""

    def __init__(self, num_features, num_classes, *, again):
        super().__init__()
        self.first, self.head, self.again = nn.Linear(num_features, WIDTH), nn.Linear(WIDTH, num_classes), again

    def forward(self, x, edge_index):
        z = self.first(x)
        h = F.dropout(F.relu(z), 0.5, self.training)
        return self.head(h + z if self.again else h)


def test_bias_relu_and_dropout_are_one():
    """In an evaluation bias and ReLU; where the product with its bias is read again, nothing is."""
    fused = ["multiply", "activate", "multiply", "activate"]
    assert kinds(lambda f, c: Dropping(f, c, again=False)) == [*fused, "loss"]
    assert kinds(lambda f, c: Dropping(f, c, again=False), "evaluate") == [*fused, "hits", "all_reduce"]
    apart = kinds(lambda f, c: Dropping(f, c, again=True))
    assert apart == ["multiply", "activate", "elementwise", "dropout", "add", "multiply", "activate", "loss"]


def test_sums_before_a_product_are_a_filter():
    """So their order is for the search to choose; of two aggregations only the last one."""

    def build(f, c):
        return Plain([pyg.LGConv(), pyg.LGConv(), pyg.GINConv(nn.Linear(f, c))], lambda x: x)

    program = forward_of(made(build), small_graph()).programs["train"]
    assert [op.kind for op in program] == ["aggregate", "aggregate", "filter", "activate", "loss"]
    (filtered,) = (op for op in program if op.kind == "filter")
    assert (filtered.attributes["hops"], filtered.attributes["matrix"]) == ((1,), "gin")
    both = forward_of(made(Twice), small_graph()).programs["train"]
    assert [op.attributes["hops"] for op in both if op.kind == "filter"] == [(2,)]


class Twice(nn.Module):
    """Two sums over edges, then a product."""

    def __init__(self, num_features, num_classes):
        super().__init__()
        self.one, self.two, self.head = pyg.LGConv(), pyg.LGConv(), nn.Linear(num_features, num_classes)

    def forward(self, x, edge_index):
        return self.head(self.two(self.one(x, edge_index), edge_index))


@pytest.mark.parametrize("name", ["gcn", "sage", "gin"])
def test_pygs_models_have_the_operators_of_the_built_in_ones(name):
    """By the module they are the same program, so nothing is slower by this way."""
    spec, pygs = (
        MODELS[name].model_copy(update={"dropout": 0.3}),
        {"gcn": pyg.GCN, "sage": pyg.GraphSAGE, "gin": pyg.GIN},
    )
    built_in = Case(spec, 1).forward().programs["train"]
    options = {"norm": None} if name == "gin" else {}
    module = made(lambda f, c: pygs[name](f, spec.hidden_channels, spec.num_layers, c, dropout=0.3, **options))
    own = expand_filters(forward_of(module, small_graph()), {}).programs["train"]
    assert [_told(op) for op in own] == [_told(op) for op in built_in]


def _told(op):
    attributes = {key: value for key, value in op.attributes.items() if key in ("base", "relu", "dropout", "factors")}
    return op.kind, [name for name in op.reads if name.startswith("convs.")], attributes

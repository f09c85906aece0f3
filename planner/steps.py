"""A GNN as a straight-line program of operators: costed and lowered by the planner, executed by the runtime.

Both read the same steps, so a task predicted is a task executed, under the same name.

Shapes: n local vertices, widths as the step says. Weights are named by their key in the PyG
model's `state_dict` (`torch_geometric.nn.models.BasicGNN`), so checkpoints load there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from gnnplan.planner.job import ModelSpec, OpOrder
from gnnplan.profiles.contract import Contract

Op = Literal["multiply", "combine", "aggregate", "exchange", "attend", "activate"]


class LayerDecision(Contract):
    """How one layer is computed.

    Args:
        op_order: `multiply_first` is A(XW), `aggregate_first` is (AX)W; the numbers agree up to rounding.
        precompute: the aggregation of the input features is done once, before the first epoch
            (first layer only, aggregate first, no input dropout).
    """

    op_order: OpOrder
    precompute: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of the program.

    | op | meaning |
    |---|---|
    | multiply | `outputs[k] = inputs[0] @ weights[k].T` |
    | combine | `outputs[0] = sum_k inputs[k] @ weights[k].T` |
    | aggregate | `outputs[0] = A @ inputs[0]`, plus `base` where given; with `keep` it also passes its input on |
    | exchange | `outputs[0] = inputs[0]` with the halo rows below the local ones |
    | attend | GAT's attention-weighted sum over in-neighbours of the rows with halo |
    | activate | `outputs[0] = dropout(relu(inputs[0] + bias))`, relu and dropout where asked for |

    Args:
        name: `l{layer}/{what}`; task keys add `/forward` or `/backward`.
        in_width, out_widths: of `inputs[0]` and of each output.
        sparse: the inputs are sparse input features.
        constant: no input needs a gradient (input features or what is precomputed from them).
        fixed: constant, and the same in every epoch: no input dropout.
    """

    name: str
    op: Op
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    in_width: int
    out_widths: tuple[int, ...]
    weights: tuple[str, ...] = ()
    base: str | None = None
    keep: str | None = None
    bias: str | None = None
    relu: bool = False
    dropout: float = 0.0
    heads: int = 1
    layer: int = 0
    sparse: bool = False
    constant: bool = False
    fixed: bool = False


@dataclass(frozen=True)
class Program:
    """Steps in order, from value `x` (or the precomputed values) to `logits`.

    Args:
        precomputed: values made once before training: hop k of the input features is `x{k}`.
        weight_shapes: every parameter, by state_dict key.
    """

    steps: tuple[Step, ...]
    precomputed: tuple[str, ...]
    weight_shapes: dict[str, tuple[int, ...]]
    num_hops_precomputed: int = 0

    @property
    def num_parameters(self) -> int:
        """Number of trained scalars."""
        total = 0
        for shape in self.weight_shapes.values():
            size = 1
            for extent in shape:
                size *= extent
            total += size
        return total


@dataclass
class _Builder:
    model: ModelSpec
    sparse_input: bool
    steps: list[Step] = field(default_factory=list)
    weights: dict[str, tuple[int, ...]] = field(default_factory=dict)
    constants: set[str] = field(default_factory=set)

    def weight(self, key: str, *shape: int) -> str:
        self.weights[key] = shape
        return key

    def add(
        self,
        layer: int,
        what: str,
        op: Op,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        in_width: int,
        out_widths: tuple[int, ...],
        **extra,
    ) -> None:
        constant = all(value in self.constants for value in inputs)
        self.steps.append(
            Step(
                f"l{layer}/{what}",
                op,
                inputs,
                outputs,
                in_width,
                out_widths,
                layer=layer,
                sparse=constant and self.sparse_input,
                constant=constant,
                fixed=constant and not self.model.input_dropout,
                **extra,
            )
        )


def layer_widths(model: ModelSpec, num_features: int, num_classes: int) -> list[tuple[int, int]]:
    """(input width, output width) of every layer; GAT's hidden width counts all heads."""
    widths = [num_features, *[model.hidden_channels] * (model.num_layers - 1), num_classes]
    return list(pairwise(widths))


def num_hops(model: ModelSpec) -> int:
    """Aggregations in one layer."""
    return model.num_hops if model.kind == "tagcn" else 1


def build_program(
    model: ModelSpec,
    decisions: tuple[LayerDecision, ...],
    *,
    num_features: int,
    num_classes: int,
    sparse_input: bool,
) -> Program:
    """The program of a model under the given decisions, one per layer."""
    assert len(decisions) == model.num_layers
    builder = _Builder(model, sparse_input, constants={"x"})
    hops = num_hops(model) if decisions[0].precompute else 0
    ready = {f"x{k}" for k in range(hops + 1)} if hops else set()
    builder.constants |= ready
    value = "x"
    for layer, (in_width, out_width) in enumerate(layer_widths(model, num_features, num_classes)):
        last = layer == model.num_layers - 1
        output = "logits" if last else f"h{layer + 1}"
        _LAYERS[model.kind](builder, layer, decisions[layer], value, output, in_width, out_width, last)
        value = output
    needed = {value for step in builder.steps for value in step.inputs}
    return Program(tuple(builder.steps), tuple(sorted(needed & ready)), builder.weights, hops)


def _finish(b: _Builder, layer: int, value: str, output: str, width: int, bias: str, last: bool) -> None:
    """Bias, and between layers ReLU and dropout."""
    b.weight(bias, width)
    b.add(
        layer,
        "activate",
        "activate",
        (value,),
        (output,),
        width,
        (width,),
        bias=bias,
        relu=not last,
        dropout=0.0 if last else b.model.dropout,
    )


def _sum_aggregated(b, layer, decision, value, output, in_width, out_width, weight) -> None:
    """`output = A X W` in either order: the core of GCN and GIN."""
    if decision.op_order == "multiply_first":
        b.add(layer, "multiply", "multiply", (value,), (f"{output}.h",), in_width, (out_width,), weights=(weight,))
        b.add(layer, "aggregate", "aggregate", (f"{output}.h",), (output,), out_width, (out_width,))
        return
    source = "x1" if decision.precompute else f"{output}.a"
    if not decision.precompute:
        b.add(layer, "aggregate", "aggregate", (value,), (source,), in_width, (in_width,))
        if value in b.constants:
            b.constants.add(source)
    b.add(layer, "multiply", "multiply", (source,), (output,), in_width, (out_width,), weights=(weight,))


def _gcn(b, layer, decision, value, output, in_width, out_width, last) -> None:
    weight = b.weight(f"convs.{layer}.lin.weight", out_width, in_width)
    _sum_aggregated(b, layer, decision, value, f"z{layer}", in_width, out_width, weight)
    _finish(b, layer, f"z{layer}", output, out_width, f"convs.{layer}.bias", last)


def _gin(b, layer, decision, value, output, in_width, out_width, last) -> None:
    inner = b.weight(f"convs.{layer}.nn.lins.0.weight", out_width, in_width)
    outer = b.weight(f"convs.{layer}.nn.lins.1.weight", out_width, out_width)
    inner_bias = b.weight(f"convs.{layer}.nn.lins.0.bias", out_width)
    _sum_aggregated(b, layer, decision, value, f"z{layer}", in_width, out_width, inner)
    b.add(
        layer,
        "activate_inner",
        "activate",
        (f"z{layer}",),
        (f"r{layer}",),
        out_width,
        (out_width,),
        bias=inner_bias,
        relu=True,
    )
    b.add(
        layer, "multiply_inner", "multiply", (f"r{layer}",), (f"m{layer}",), out_width, (out_width,), weights=(outer,)
    )
    _finish(b, layer, f"m{layer}", output, out_width, f"convs.{layer}.nn.lins.1.bias", last)


def _sage(b, layer, decision, value, output, in_width, out_width, last) -> None:
    neighbor = b.weight(f"convs.{layer}.lin_l.weight", out_width, in_width)
    root = b.weight(f"convs.{layer}.lin_r.weight", out_width, in_width)
    _hops(b, layer, decision, value, in_width, out_width, (root, neighbor))
    _finish(b, layer, f"z{layer}", output, out_width, f"convs.{layer}.lin_l.bias", last)


def _tagcn(b, layer, decision, value, output, in_width, out_width, last) -> None:
    hops = range(b.model.num_hops + 1)
    weights = tuple(b.weight(f"convs.{layer}.lins.{k}.weight", out_width, in_width) for k in hops)
    _hops(b, layer, decision, value, in_width, out_width, weights)
    _finish(b, layer, f"z{layer}", output, out_width, f"convs.{layer}.bias", last)


def _hops(b, layer, decision, value, in_width, out_width, weights) -> None:
    """`z = sum_k A^k X W_k`: SAGE (K = 1) and TAGCN; multiplied first it is Horner's rule."""
    hops = len(weights) - 1
    if decision.op_order == "multiply_first":
        products = tuple(f"z{layer}.{k}" for k in range(hops + 1))
        b.add(layer, "multiply", "multiply", (value,), products, in_width, (out_width,) * (hops + 1), weights=weights)
        current = products[hops]
        for k in range(hops - 1, -1, -1):
            result = f"z{layer}" if k == 0 else f"z{layer}.s{k}"
            b.add(
                layer,
                f"aggregate{hops - k}",
                "aggregate",
                (current,),
                (result,),
                out_width,
                (out_width,),
                base=products[k],
            )
            current = result
        return
    if decision.precompute:
        sources = [f"x{k}" for k in range(hops + 1)]
    else:
        sources, current = [], value
        for k in range(1, hops + 1):
            result, kept = f"a{layer}.{k}", f"a{layer}.{k - 1}.kept"
            b.add(layer, f"aggregate{k}", "aggregate", (current,), (result,), in_width, (in_width,), keep=kept)
            if current in b.constants:
                b.constants |= {result, kept}
            sources.append(kept)
            current = result
        sources.append(current)
    b.add(layer, "combine", "combine", tuple(sources), (f"z{layer}",), in_width, (out_width,), weights=weights)


def _gat(b, layer, decision, value, output, in_width, out_width, last) -> None:
    heads = b.model.heads
    total = out_width * heads if last else out_width  # the last layer averages its heads
    weight = b.weight(f"convs.{layer}.lin.weight", total, in_width)
    attention = tuple(b.weight(f"convs.{layer}.att_{side}", 1, heads, total // heads) for side in ("src", "dst"))
    b.add(layer, "multiply", "multiply", (value,), (f"p{layer}",), in_width, (total,), weights=(weight,))
    b.add(layer, "halo", "exchange", (f"p{layer}",), (f"q{layer}",), total, (total,))
    b.add(
        layer, "attend", "attend", (f"q{layer}",), (f"z{layer}",), total, (out_width,), weights=attention, heads=heads
    )
    _finish(b, layer, f"z{layer}", output, out_width, f"convs.{layer}.bias", last)


_LAYERS = {"gcn": _gcn, "sage": _sage, "gat": _gat, "gin": _gin, "tagcn": _tagcn}

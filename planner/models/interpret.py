"""From a module to a forward program: each traced call in the words of `gnnplan.planner.models.vocabulary`."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch_geometric import nn as pyg
from torch_geometric.nn import MessagePassing

from gnnplan.planner.models import known_layers
from gnnplan.planner.models.known_layers import LAYERS, WEIGHTED, NeverSupportedError, NotSupportedError
from gnnplan.planner.models.known_modules import EDGES, FUNCTIONS, JOINS, MODULES, NAMED, OnEdges, Rows, Step, is_step
from gnnplan.planner.models.own_layers import write_layer
from gnnplan.planner.models.relational_layers import RELATIONAL, rgcn
from gnnplan.planner.models.trace import IN_PLACE, WHOLE_GRAPH, first_line, line_of, traced
from gnnplan.planner.models.vocabulary import Writer
from gnnplan.profiles.errors import UserError

ON_EDGES = (
    "outside of a layer features of edges have only functions of their rows, without dropout or batch norm; compute it "
    "before training, or within the layer that reads it"
)
_SAME, _SAME_MODULES = ("dropout", "contiguous"), (nn.Dropout, nn.Identity)
"""What may return the very tensor that it is given; all else makes another one, though of the same numbers."""
_ONCE_IS_ENOUGH = ("relu", "relu_", "relu6", "hardtanh", nn.ReLU, nn.ReLU6, nn.Hardtanh)
"""What changes nothing the second time; what read the features before would have others from then on."""
Made = Rows | OnEdges | tuple[Rows, OnEdges]
_ALL_ROWS = (
    "it is no known function of rows by themselves; what mixes rows (pooling, attention over all vertices, means over "
    "the graph) cannot be shared out, and a function of single elements can be asked for"
)


def write_module(w: Writer, module: nn.Module, x: str, on_edges: Mapping[str, np.ndarray]) -> str:
    """Writes a module on (x, edge_index); returns its result, which has a row for every vertex.

    Args:
        on_edges: [E] or [E, D] by the names of arguments that a module may take beside.

    Raises:
        UserError: naming the line of a call that has no operators, and why.
    """
    also = {name: OnEdges.of(name, values) for name, values in on_edges.items()}
    return _Calls(w, module, "").run([Rows(x), EDGES], also).name


def _write_rows(w: Writer, module: nn.Module, path: str, x: str) -> str:
    """Writes a module on rows alone."""
    key = w.key
    if type(module) in MODULES:
        w.key = path.replace(".", "_")
        made = MODULES[type(module)](w, module, path, x)
    else:
        made = _Calls(w, module, path).run([Rows(x)]).name
    w.key = key
    return made


class _Calls:
    """The traced calls of one module.

    Args:
        path: of the module within the user's.
    """

    def __init__(self, w: Writer, module: nn.Module, path: str) -> None:
        self.w, self.module, self.path = w, module, path
        self._features: list[Any] = []

    def run(self, inputs: Sequence[Any], also: Mapping[str, Any] = MappingProxyType({})) -> Rows:
        """Writes all calls; the result of the last one.

        Args:
            also: arguments by name.
        """
        given, known = list(inputs), dict[fx.Node, Any]()
        self._features = [each for each in (*inputs, *also.values()) if self._is_of_graph(each)]
        for node in traced(self.module, len(inputs), also.keys()).nodes:
            if node.op == "placeholder":
                known[node] = given.pop(0) if given else self._given(str(node.target), also)
            elif node.op == "output":
                return self._result(node, known)
            else:
                known[node] = self._called(node, known)
                if isinstance(known[node], Rows | OnEdges) and self._is_in_place(node):
                    self._rebind(known, node)
        raise AssertionError("a graph without an output")

    def _changes_features(self, node: fx.Node, args: Sequence[Any]) -> bool:
        """Whether a call changes the graph's features in place, so that torch would change them anew in each epoch."""
        if not (args and any(args[0] is each for each in self._features) and self._is_in_place(node)):
            return False
        is_module, source = node.op == "call_module", node.args[0]
        what = type(self.module.get_submodule(str(node.target))) if is_module else self._name_of(node)
        is_read_before = isinstance(source, fx.Node) and next(iter(source.users)) is not node
        return what not in _ONCE_IS_ENOUGH or is_read_before

    def _is_of_graph(self, value: Any) -> bool:
        """Whether a value is the graph's own: its features, or those of its edges."""
        is_rows = isinstance(value, Rows) and self.w.emitter.cycle.values[value.name].role == "input"
        return is_rows or isinstance(value, OnEdges)

    def _rebind(self, known: dict[fx.Node, Any], node: fx.Node) -> None:
        """What was changed in place is from here on the new value, under all of its names and within tuples."""
        before = known[node.args[0]] if node.args and isinstance(node.args[0], fx.Node) else None
        if not isinstance(before, Rows | OnEdges):
            return
        if any(before is each for each in self._features):
            self._features.append(known[node])
        for each, value in known.items():
            if isinstance(value, tuple):
                known[each] = tuple(known[node] if part is before else part for part in value)
            elif value is before:
                known[each] = known[node]

    @staticmethod
    def _name_of(node: fx.Node) -> Any:
        return node.target if node.op == "call_method" else NAMED.get(node.target)

    def _is_in_place(self, node: fx.Node) -> bool:
        """Whether a call changes the value that it is given first."""
        if node.op == "call_module":
            return bool(getattr(self.module.get_submodule(str(node.target)), "inplace", False))
        name = self._name_of(node)
        if name not in FUNCTIONS:
            return node.target in IN_PLACE
        given = inspect.signature(FUNCTIONS[str(name)]).bind(self.w, *node.args, **node.kwargs).arguments
        return str(name).endswith("_") or given.get("inplace") is True

    def _given(self, name: str, also: Mapping[str, Any]) -> Any:
        """An argument beside the leading ones; fx puts a number behind the name of one that stays at its default."""
        defaults = {each.name: each.default for each in inspect.signature(self.module.forward).parameters.values()}
        return also[name] if name in also else defaults.get(name, defaults.get(name.rpartition("_")[0]))

    def _result(self, node: fx.Node, known: Mapping[fx.Node, Any]) -> Rows:
        (result,) = fx.map_arg(node.args, known.__getitem__)
        if not isinstance(result, Rows):
            name = type(self.module).__name__
            raise UserError(f"{name}: forward must return one value, a row for every vertex, and returns another")
        return result

    def _called(self, node: fx.Node, known: Mapping[fx.Node, Any]) -> Any:
        args: Any = fx.map_arg(node.args, known.__getitem__)
        kwargs: Any = fx.map_arg(node.kwargs, known.__getitem__)
        prefix = f"{self.path.replace('.', '_')}_" if self.path else ""
        self.w.key = f"{prefix}{node.name}"
        try:
            return self._write(node, list(args), dict(kwargs))
        except UserError:
            raise
        except NotSupportedError as error:
            why = str(error)
        except Exception as error:  # of arguments that no operator takes, or of the user's own function of numbers
            why = f"it cannot be read with what it is given ({first_line(error)})"
        raise UserError(f"{line_of(node, self.module)}: {self._words(node)}: {why}")

    def _words(self, node: fx.Node) -> str:
        if node.op == "call_module":
            return f"{self._full(str(node.target))} ({type(self.module.get_submodule(str(node.target))).__name__})"
        return getattr(node.target, "__name__", str(node.target))

    def _full(self, target: str) -> str:
        return f"{self.path}.{target}" if self.path else target

    def _write(self, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if node.op == "get_attr":
            return self._attribute(str(node.target))
        if self._changes_features(node, args):
            raise NotSupportedError("it would change the graph's features themselves; write x = x + y, not x += y")
        if node.op == "call_module":
            return self._layer(self.module.get_submodule(str(node.target)), self._full(str(node.target)), args, kwargs)
        if node.target is fx._symbolic_trace._assert_is_none:
            return None
        if node.target is operator.getitem and isinstance(args[0], tuple):
            return args[0][args[1]]
        everything = [*_flat(args), *_flat(kwargs.values())]
        if any(each is EDGES for each in everything):
            raise NotSupportedError(WHOLE_GRAPH)
        if any(isinstance(each, OnEdges) for each in everything):
            return self._on_edges(node, args, kwargs)
        if not any(isinstance(each, Rows) for each in everything):
            return _constant(node, args, kwargs)
        return self._function(node, args, kwargs)

    def _on_edges(self, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> OnEdges:
        """A function of every row of features of edges."""
        name, on_edges = node.target if node.op == "call_method" else NAMED.get(node.target), args[0] if args else None
        if not isinstance(on_edges, OnEdges) or on_edges.is_flat or name not in FUNCTIONS or name == "dropout":
            raise NotSupportedError(ON_EDGES)
        return on_edges.then(self._step(lambda w, x: FUNCTIONS[str(name)](w, x, *args[1:], **kwargs)))

    def _step(self, write: Step) -> Step:
        """A step that is written under the present key, wherever it is."""
        key = self.w.key

        def written(w: Writer, x: str) -> str:
            before, w.key = w.key, key
            made = write(w, x)
            w.key = before
            return made

        return written

    def _attribute(self, target: str) -> torch.Tensor:
        found: Any = self.module
        for part in target.split("."):
            found = getattr(found, part)
        if isinstance(found, nn.Parameter) or not isinstance(found, torch.Tensor):
            raise NotSupportedError("a parameter outside a layer has no operator; put it into a Linear or a norm")
        return found

    def _function(self, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        target = node.target
        name = target if node.op == "call_method" else NAMED.get(target)
        if target in (torch.log_softmax, torch.nn.functional.log_softmax, "log_softmax"):
            return self._log_softmax(node, args, kwargs)
        if target in JOINS:
            return Rows(JOINS[target](self.w, *args, **kwargs))
        if name in FUNCTIONS:
            made = FUNCTIONS[str(name)](self.w, args[0].name, *args[1:], **kwargs)
            return args[0] if name in _SAME and made == args[0].name else Rows(made)
        raise NotSupportedError(_ALL_ROWS)

    def _log_softmax(self, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Rows:
        """Cross-entropy takes it again, which changes nothing: the softmax of logarithms of a softmax is that one."""
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if self.path or dim not in (1, -1) or any(user.op != "output" for user in node.users):
            raise NotSupportedError("only at the end of the model, over dim = 1, is it known")
        if not self.w.is_softmax_last:
            raise NotSupportedError("it is known before the loss cross_entropy alone, which takes it again")
        return args[0]

    def _layer(self, layer: nn.Module, path: str, args: list[Any], kwargs: dict[str, Any]) -> Made:
        if isinstance(layer, MessagePassing):
            return self._message_passing(layer, path, args, kwargs)
        rows, rest = args[0] if args else kwargs.pop("x", None), [*args[1:], *kwargs.values()]
        if type(layer) is pyg.JumpingKnowledge:
            return Rows(self._join(layer, rows))
        if isinstance(rows, OnEdges):
            if not is_step(layer) or rows.is_flat or rest:
                raise NotSupportedError(ON_EDGES)
            return rows.then(self._step(lambda w, x: MODULES[type(layer)](w, layer, path, x)))
        if not isinstance(rows, Rows):
            raise NotSupportedError("it must be given the rows of the vertices as one value")
        given = [each for each in rest if each is not None]
        if type(layer) not in MODULES:
            raise NotSupportedError(_ALL_ROWS)
        if given:
            raise NotSupportedError("it must be given rows alone")
        made = MODULES[type(layer)](self.w, layer, path, rows.name)
        return rows if isinstance(layer, _SAME_MODULES) and made == rows.name else Rows(made)

    def _join(self, layer: Any, values: Sequence[Rows]) -> str:
        names = [each.name for each in values]
        if layer.mode == "lstm":
            raise NotSupportedError("mode = 'lstm' has no operators; take 'cat' or 'max'")
        return self.w.concat(names) if layer.mode == "cat" else self.w.maximum(names)

    def _message_passing(self, layer: nn.Module, path: str, args: list[Any], kwargs: dict[str, Any]) -> Made:
        """By its equations where they are known, else by its own code."""
        rows, given = args[0] if args else kwargs.get("x"), [*args[1:], *(v for k, v in kwargs.items() if k != "x")]
        given = [each for each in given if each is not None]
        before, num_dropped = len(self.w.emitter.operators), self.w.num_dropped
        try:
            if isinstance(rows, Rows) and (written := self._by_equations(layer, path, rows, given)):
                return Rows(written)
        except NeverSupportedError:
            raise
        except NotSupportedError as unknown:
            del self.w.emitter.operators[before:]
            self.w.num_dropped = num_dropped
            try:
                return write_layer(self.w, layer, path, args, kwargs)
            except NotSupportedError:
                raise unknown from None
        return write_layer(self.w, layer, path, args, kwargs)

    def _by_equations(self, layer: nn.Module, path: str, rows: Rows, given: list[Any]) -> str | None:
        if type(layer) is pyg.GCN2Conv and len(given) == 2 and isinstance(given[0], Rows) and given[1] is EDGES:
            return known_layers.gcn2(self.w, layer, path, rows.name, given[0].name)
        if type(layer) in RELATIONAL:
            return self._by_types(layer, path, rows, given)
        is_weighted = len(given) == 2 and isinstance(given[1], OnEdges) and given[1].is_weight
        if type(layer) not in (WEIGHTED if is_weighted else LAYERS) or len(given) - is_weighted != 1:
            return None
        if given[0] is not EDGES:
            return None
        rows_of = lambda module, at, x: _write_rows(self.w, module, at, x)  # noqa: E731
        self.w.is_weighted = is_weighted
        try:
            return LAYERS[type(layer)](self.w, layer, path, rows.name, rows_of)
        finally:
            self.w.is_weighted = False

    def _by_types(self, layer: nn.Module, path: str, rows: Rows, given: list[Any]) -> str | None:
        if len(given) != 2 or given[0] is not EDGES or not isinstance(given[1], OnEdges) or not given[1].num_types:
            return None
        return rgcn(self.w, layer, path, rows.name, given[1].num_types)


def _flat(values: Any) -> list[Any]:
    found: list[Any] = []
    for each in values:
        found += _flat(each) if isinstance(each, list | tuple) else [each]
    return found


def _constant(node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A call on numbers that are known before training."""
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    assert callable(node.target)
    return node.target(*args, **kwargs)

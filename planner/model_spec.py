"""Which model a job trains: one of eight by name, or a module of one's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import MAX_LEVELS, Levels, Width

ModelKind = Literal["gcn", "sage", "gat", "gin", "tagcn", "sgc", "appnp", "decoupled_gat", "module"]


@dataclass(frozen=True)
class _Held:
    """A module in memory, which says nothing of what a job is: jobs are equal whichever they hold."""

    module: Any = field(default=None, compare=False)


class ModelSpec(Contract):
    """A GNN as PyG's `BasicGNN` builds it: `num_layers` convolutions with ReLU and dropout between.

    Of `appnp` these are Linears, and the last one is propagated `num_hops` times (Gasteiger et al. 2019). `sgc` has
    SGConvs of `num_hops`; with one layer it is the published model (Wu et al. 2019). `decoupled_gat` is as `appnp`, and
    propagates by attention, which is computed once from the last Linear's rows (NeutronTP, section 4.1).

    Or of kind `module` a `torch.nn.Module` of one's own: `build` names the file and the function that makes it, called
    with the numbers of features and classes. Without `build` it is one that a Python program passes beside the job.

    Args:
        build: `FILE.py:FUNCTION`, for kind `module` alone.
        source_sha256: of that file, as a plan was made with it (empty: not told).
        hidden_channels: width between layers, over all heads for GAT.
        dropout: on every hidden activation.
        input_dropout: on the input features (rules out aggregating them once).
        heads: attention heads; the last layer averages them.
        num_hops: K of TAGCN, SGC and the decoupled kinds.
        alpha: of `appnp` and `decoupled_gat`, how much of its first rows a propagation has (0: nothing).
    """

    kind: ModelKind = "gcn"
    num_layers: Levels = 2
    hidden_channels: Width = 128
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    input_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    heads: Width = 4
    num_hops: Levels = 3
    alpha: Annotated[float, Field(ge=0, lt=1)] = 0.1
    build: str = ""
    source_sha256: str = ""
    _held: _Held = PrivateAttr(default_factory=_Held)

    @property
    def held(self) -> Any:
        """The module that a Python program has passed (None: none)."""
        return self._held.module

    def holding(self, module: Any) -> Self:
        """The same model, which has its module from now on."""
        self._held = _Held(module)
        return self

    @property
    def build_file(self) -> Path:
        """The file of the function that makes the module."""
        return Path(self.build.rpartition(":")[0])

    @property
    def build_function(self) -> str:
        """That function's name."""
        return self.build.rpartition(":")[2]

    @property
    def is_decoupled(self) -> bool:
        """Whether all rows are made first, and propagated then."""
        return self.kind in ("appnp", "decoupled_gat")

    @property
    def decoupled(self) -> Self | None:
        """The model in decoupled form: all its Linears, then as many propagations as it has layers (None: it has none).

        NeutronTP, section 4.1.2. It is another model. Its attention, of GAT, is computed once.
        """
        kind = {"gcn": "appnp", "gat": "decoupled_gat"}.get(self.kind)
        return self.model_copy(update={"kind": kind, "num_hops": self.num_layers}) if kind else None

    @property
    def hops_of_layers(self) -> tuple[int, ...]:
        """How many times each layer aggregates, one after the other."""
        if self.is_decoupled:
            return (*(0,) * (self.num_layers - 1), self.num_hops)
        return (self.num_hops if self.kind in ("tagcn", "sgc") else 1,) * self.num_layers

    @property
    def words(self) -> str:
        """The model in a few words."""
        if self.kind == "module":
            return f"module of {self.build or 'a Python program'}"
        return f"{self.kind}, {self.num_layers} layers, hidden {self.hidden_channels}"

    @model_validator(mode="after")
    def _is_a_module_or_none(self) -> Self:
        if self.kind != "module":
            if self.build or self.source_sha256:
                raise ValueError(f"build is for kind 'module', and the kind is {self.kind!r}")
            return self
        own, fields = {"kind", "build", "source_sha256"}, type(self).model_fields
        given = sorted(name for name in fields.keys() - own if getattr(self, name) != fields[name].default)
        if given:
            raise ValueError(f"a module says by itself what it is made of; leave out {', '.join(given)}")
        if self.build and not (self.build_file.suffix == ".py" and self.build_function.isidentifier()):
            raise ValueError(f"build is {self.build!r}; name a file and a function in it: my_model.py:build")
        return self

    @model_validator(mode="after")
    def _is_built(self) -> Self:
        if self.kind == "gat" and self.hidden_channels % self.heads:
            raise ValueError(f"hidden_channels {self.hidden_channels} must be a multiple of heads {self.heads}")
        if sum(self.hops_of_layers) > MAX_LEVELS:
            raise ValueError(f"{self.num_layers} layers of {self.num_hops} hops aggregate more than {MAX_LEVELS} times")
        return self

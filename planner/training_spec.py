"""How a job trains: its loss, its optimizer, and how long."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gnnplan.planner.losses import check_name, is_own
from gnnplan.planner.metrics import MetricName
from gnnplan.planner.weather.model import ModelledWeather
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import Epochs


class TrainingSpec(Contract):
    """Full-batch training: one optimizer step per epoch on the mean loss over ALL training vertices.

    Args:
        loss: `cross_entropy` of classes, `bce` of label sets, `mse` or `l1` of targets, each as torch has it, or
            `FILE.py:FUNCTION`; `auto` is the one of classes or of label sets, as the graph has them.
        metric: what is told of the splits while it trains and at its end; `auto` is what is usual with the loss:
            `accuracy` of classes, `f1_micro` of label sets, `rmse` or `mae` of targets.
        loss_sha256: of that file, as a plan was made with it (empty: not told).
        optimizer: torch's `Adam`, `AdamW` or `SGD` with their defaults, but for what stands here.
        momentum: of SGD.
        schedule: what becomes of the learning rate: it stays, or falls to zero over all epochs, along a line or as half
            a cosine (torch's `LinearLR` and `CosineAnnealingLR`, one step an epoch).
        weather: what fluctuates while it trains: sleeps that the runtime injects, or a model of the machines.
        traced_epochs: epochs whose tasks are measured one by one, spread over the run.
    """

    epochs: Epochs = 100
    learning_rate: Annotated[float, Field(gt=0, le=1e6)] = 0.01
    weight_decay: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    loss: str = "auto"
    loss_sha256: str = ""
    metric: MetricName = "auto"
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    weather: ModelledWeather | None = None
    traced_epochs: Epochs = 10

    @model_validator(mode="after")
    def _only_sgd_has_momentum(self) -> Self:
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum is of optimizer 'sgd', and the optimizer is {self.optimizer!r}; leave one out")
        return self

    @model_validator(mode="after")
    def _is_a_loss(self) -> Self:
        check_name(self.loss)
        if self.loss_sha256 and not is_own(self.loss):
            raise ValueError("loss_sha256 is of a loss of one's own, FILE.py:FUNCTION; leave it out")
        return self

    def with_paths_from(self, base: Path) -> Self:
        """The same with the file of its own loss taken from a folder."""
        if not is_own(self.loss) or Path(self.loss).is_absolute():
            return self
        return self.model_copy(update={"loss": str(base / self.loss)})

"""How a job trains: its loss, its optimizer, and how long."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from gnnplan.planner.losses import check_name, is_own
from gnnplan.planner.metrics import MetricName
from gnnplan.planner.optimizers import OptimizerName, ScheduleName, check_optimizer, check_schedule, has_momentum
from gnnplan.planner.weather.model import ModelledWeather
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import MAX_EPOCHS, Epochs


class EarlyStopping(Contract):
    """Ends a training whose validation metric does not become better, with the weights that had the best one.

    Args:
        patience: validations that may pass without a better one.
        min_delta: by how much one must be better.
    """

    patience: Epochs = 10
    min_delta: Annotated[float, Field(ge=0, le=1e12)] = 0.0


class TrainingSpec(Contract):
    """Full-batch training: one optimizer step per epoch on the mean loss over ALL training vertices.

    Args:
        loss: `cross_entropy` of classes, `bce` of label sets, `mse` or `l1` of targets, each as torch has it, or
            `FILE.py:FUNCTION`; `auto` is the one of classes or of label sets, as the graph has them.
        metric: what is told of the splits while it trains and at its end; `auto` is what is usual with the loss:
            `accuracy` of classes, `f1_micro` of label sets, `rmse` or `mae` of targets.
        loss_sha256: of that file, as a plan was made with it (empty: not told).
        optimizer: torch's `Adam`, `AdamW`, `SGD` and so on with their defaults, but for what stands here.
        optimizer_arguments: by torch's names, such as `betas` and `eps`.
        momentum: of SGD and RMSprop.
        schedule: what becomes of the learning rate: it stays, or falls to zero over all epochs, along a line or as half
            a cosine (torch's `LinearLR` and `CosineAnnealingLR`, one step an epoch), or what torch's `StepLR`,
            `MultiStepLR` and `ExponentialLR` do, or `ReduceLROnPlateau` (`plateau`) with the validation metric.
        schedule_arguments: by torch's names, such as `step_size` and `gamma`.
        warmup_epochs: in which the learning rate grows along a line, before the schedule begins.
        clip_norm: the most that the norm of the whole gradient may be: a longer one is scaled down (0: any).
        clip_value: the most that an element of it may be, either way (0: any).
        early_stopping: whether the validation metric may end the training before its last epoch (None: never).
        validate_every: epochs from one validation to the next, where something depends on them.
        weather: what fluctuates while it trains: sleeps that the runtime injects, or a model of the machines.
        traced_epochs: epochs whose tasks are measured one by one, spread over the run.
    """

    epochs: Epochs = 100
    learning_rate: Annotated[float, Field(gt=0, le=1e6)] = 0.01
    weight_decay: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    loss: str = "auto"
    loss_sha256: str = ""
    metric: MetricName = "auto"
    optimizer: OptimizerName = "adam"
    optimizer_arguments: dict[str, bool | float | tuple[float, ...]] = Field(default_factory=dict)
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    schedule: ScheduleName = "constant"
    schedule_arguments: dict[str, bool | float | tuple[float, ...]] = Field(default_factory=dict)
    warmup_epochs: Annotated[int, Field(ge=0, le=MAX_EPOCHS)] = 0
    clip_norm: Annotated[float, Field(ge=0, le=1e12)] = 0.0
    clip_value: Annotated[float, Field(ge=0, le=1e12)] = 0.0
    early_stopping: EarlyStopping | None = None
    validate_every: Epochs = 1
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    weather: ModelledWeather | None = None
    traced_epochs: Epochs = 10

    def __hash__(self) -> int:
        """Of its document, for arguments are dicts."""
        return hash(self.model_dump_json())

    @model_validator(mode="after")
    def _only_some_have_momentum(self) -> Self:
        if self.momentum and not has_momentum(self.optimizer):
            raise ValueError(
                f"momentum is of optimizer 'sgd' and 'rmsprop', and the optimizer is {self.optimizer!r}; leave one out"
            )
        if self.optimizer_arguments.get("nesterov") and not self.momentum:
            raise ValueError("optimizer_arguments.nesterov needs a momentum")
        return self

    @model_validator(mode="after")
    def _have_their_arguments(self) -> Self:
        check_optimizer(self.optimizer, self.optimizer_arguments)
        check_schedule(self.schedule, self.schedule_arguments)
        return self

    @model_validator(mode="after")
    def _is_a_loss(self) -> Self:
        check_name(self.loss)
        if self.loss_sha256 and not is_own(self.loss):
            raise ValueError("loss_sha256 is of a loss of one's own, FILE.py:FUNCTION; leave it out")
        return self

    @property
    def is_supervised(self) -> bool:
        """Whether the validation metric decides something while it trains."""
        return self.early_stopping is not None or self.schedule == "plateau"

    @property
    def least_epochs(self) -> int:
        """Epochs that are trained in any case."""
        if self.early_stopping is None:
            return self.epochs
        return min(self.epochs, (self.early_stopping.patience + 1) * self.validate_every)

    @property
    def is_plain(self) -> bool:
        """Whether every step is as torch's optimizers take it by default, at one rate."""
        of_default = type(self)()
        names = ("schedule", "optimizer_arguments", "warmup_epochs", "clip_norm", "clip_value", "early_stopping")
        given = any(getattr(self, name) != getattr(of_default, name) for name in names)
        return self.optimizer in ("adam", "adamw", "sgd") and not given

    def with_paths_from(self, base: Path) -> Self:
        """The same with the file of its own loss taken from a folder."""
        if not is_own(self.loss) or Path(self.loss).is_absolute():
            return self
        return self.model_copy(update={"loss": str(base / self.loss)})

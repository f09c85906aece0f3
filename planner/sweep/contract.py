"""The `Sweep` contract: devices, machines and model settings to be asked about."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from gnnplan.planner.model_spec import ModelKind
from gnnplan.planner.statistics.price_batches import HostRates
from gnnplan.profiles.catalog import catalog_names
from gnnplan.profiles.contract import Contract, Document
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.limits import MAX_WORKERS, BareName, Levels, Rate, Seconds, SomeBytes, Width, Workers

MAX_POINTS = 100_000  # some half an hour; an axis more is easily written
_MOST_VALUES = 1000  # of an axis
_SPECIFICATION = ("memory_bytes", "flops_per_s", "memory_bytes_per_s", "link_bytes_per_s")
Price = Annotated[float, Field(ge=0, le=1e6)]
Watts = Annotated[float, Field(ge=0, le=1e6)]


class SweptDevice(Contract):
    """A device by its published specification, or what a device of the catalog costs.

    Args:
        memory_bytes, flops_per_s, memory_bytes_per_s, link_bytes_per_s: memory, peak float32 FLOP/s without tensor
            cores, peak bytes/s of its memory, raw bytes/s of its slot in one direction; all four or none.
        shares_like: the architecture whose measured shares of these peaks it is taken to achieve.
        price_per_hour: dollars, of one device (None: unknown, and so is the price of its machines).
        watts: of one device at work (None: unknown).
    """

    memory_bytes: SomeBytes | None = None
    flops_per_s: PositiveFloat | None = None
    memory_bytes_per_s: Rate | None = None
    link_bytes_per_s: Rate | None = None
    shares_like: Literal["turing", "ampere"] = "ampere"
    price_per_hour: Price | None = None
    watts: Watts | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        given = [name for name in _SPECIFICATION if getattr(self, name) is not None]
        if given and len(given) < len(_SPECIFICATION):
            missing = ", ".join(name for name in _SPECIFICATION if name not in given)
            raise ValueError(
                f"{missing} missing; give all of {', '.join(_SPECIFICATION)}, or none for a catalog device"
            )
        return self

    @property
    def is_described(self) -> bool:
        """Whether it stands for itself, and not for a device of the catalog."""
        return self.flops_per_s is not None


Names = Annotated[tuple[BareName, ...], Field(min_length=1, max_length=_MOST_VALUES)]
Counts = Annotated[tuple[Workers, ...], Field(min_length=1, max_length=_MOST_VALUES)]
Rates = Annotated[tuple[Rate, ...], Field(max_length=_MOST_VALUES)]


class Machines(Contract):
    """Clusters of equal devices: every combination of what is listed.

    Args:
        devices: by name, of the sweep or of the catalog.
        per_host, hosts: devices of a host, and hosts.
        network_bytes_per_s, network_latency_s: of every host's link.
        device_link_bytes_per_s: between two devices of a host (empty: their slots', PCIe 3.0 x16 at most).
        memory_bytes: of a device (empty: as it comes).
        cores_per_host: of the processor, which make mini-batches; of no account for full batches.
        host_price_per_hour, host_watts: of a host beside its devices.
    """

    devices: Names
    per_host: Counts = (1,)
    hosts: Counts = (1,)
    network_bytes_per_s: Annotated[Rates, Field(min_length=1)] = (1.25e9,)
    network_latency_s: Seconds = 50e-6
    device_link_bytes_per_s: Rates = ()
    memory_bytes: Annotated[tuple[SomeBytes, ...], Field(max_length=_MOST_VALUES)] = ()
    cores_per_host: Annotated[tuple[Workers, ...], Field(max_length=_MOST_VALUES)] = ()
    host_price_per_hour: Price = 0.0
    host_watts: Watts = 0.0

    @model_validator(mode="after")
    def _is_bounded(self) -> Self:
        if max(self.per_host) * max(self.hosts) > MAX_WORKERS:
            raise ValueError(
                f"{max(self.per_host) * max(self.hosts):,} devices in one machine, {MAX_WORKERS:,} at most"
            )
        return self


class ModelAxes(Contract):
    """Settings of the job's model to be tried, every combination (empty: as the job has it)."""

    kind: tuple[ModelKind, ...] = ()
    num_layers: Annotated[tuple[Levels, ...], Field(max_length=_MOST_VALUES)] = ()
    hidden_channels: Annotated[tuple[Width, ...], Field(max_length=_MOST_VALUES)] = ()
    heads: Annotated[tuple[Width, ...], Field(max_length=_MOST_VALUES)] = ()


class Sweep(Document):
    """What to ask about.

    Args:
        device: devices by name, with what is published of them, or with the price of one in the catalog.
        machines: sets of clusters of equal devices.
        clusters: cluster files, each one machine more.
        host: what a core does for mini-batches.
        model: settings of the job's model.
    """

    KIND: ClassVar[str] = "sweep"

    name: BareName = "sweep"
    device: dict[BareName, SweptDevice] = Field(default_factory=dict)
    machines: Annotated[tuple[Machines, ...], Field(max_length=_MOST_VALUES)] = ()
    clusters: Annotated[tuple[Path, ...], Field(max_length=_MOST_VALUES)] = ()
    host: HostRates = HostRates()
    model: ModelAxes = ModelAxes()

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        if not self.machines and not self.clusters:
            raise ValueError("no machine to ask about; give [[machines]] or clusters")
        known = set(catalog_names())
        for name, device in self.device.items():
            if device.is_described == (name in known):
                fault = "is one of the catalog's; give it another name" if name in known else "is not in the catalog"
                raise ValueError(f"device {name!r} {fault}" + ("" if name in known else _NEEDED))
        for name in (name for machines in self.machines for name in machines.devices):
            if name not in known | set(self.device):
                raise ValueError(
                    f"device {name!r} is not in the catalog (gnnplan profile --list), and has no [device.{name}]"
                )
        return self

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads the sweep; relative cluster files are taken from its folder."""
        sweep, base = super().load(path), Path(path).resolve().parent
        return sweep.model_copy(update={"clusters": tuple(base / each for each in sweep.clusters)})


_NEEDED = f", so give {', '.join(_SPECIFICATION)}"


def check_count(count: int, where: str) -> None:
    """`UserError` where a sweep has more points than anyone waits for."""
    if count > MAX_POINTS:
        raise UserError(f"{where}: {count:,} points, {MAX_POINTS:,} at most; leave out values of some axis")

"""The `MachineProfile` contract: how long each operator takes on one device, with provenance."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from gnnplan.profiles.contract import Contract, Document
from gnnplan.profiles.disk import DiskRates
from gnnplan.profiles.limits import MAX_WORKERS, Bytes, HostName, Rate, Seconds, SomeBytes, SomeSeconds, Workers

_DRIFT = 4 / 3
Provenance = Literal["measured", "published", "scaled"]


class Point(Contract):
    """One timed shape.

    Args:
        shape: one value per axis of the table it stands in.
        median_s: seconds of a call, the median over means of groups of calls.
        spread_s: interquartile range, seconds (0 where not known). Of operators over the same means: less than what
            single short calls vary by. Of collectives over single calls.
        repeats: how many timed calls the median rests on (0 where published or scaled).
    """

    shape: tuple[float, ...]
    median_s: Seconds
    spread_s: Seconds = 0.0
    repeats: int = Field(default=0, ge=0)
    provenance: Provenance = "measured"


class OperatorTable(Contract):
    """Seconds of one operator over a full rectilinear grid of shapes.

    `axes` names the coordinates, e.g. `("num_rows", "in_width", "out_width")`. Every combination
    of the axis values that occur must be present, so that lookups interpolate and never guess.
    """

    axes: tuple[str, ...] = Field(min_length=1)
    points: tuple[Point, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _is_full_grid(self) -> OperatorTable:
        shapes = {point.shape for point in self.points}
        if any(len(shape) != len(self.axes) for shape in shapes):
            raise ValueError(f"every point needs {len(self.axes)} coordinates {self.axes}")
        if any(value <= 0 for shape in shapes for value in shape):
            raise ValueError("coordinates must be above 0")
        if len(shapes) != len(self.points):
            raise ValueError("a shape is listed twice")
        size = 1
        for axis in range(len(self.axes)):
            size *= len({shape[axis] for shape in shapes})
        if size != len(shapes):
            raise ValueError(f"not a full grid over {self.axes}: {len(shapes)} of {size} points")
        return self


class Link(Contract):
    """A network link: `seconds(bytes) = latency_s + bytes / bytes_per_s`."""

    bytes_per_s: Rate
    latency_s: Seconds = 0.0


class MeasuredHost(Contract):
    """A host as the cluster file had it when its profile was measured.

    Args:
        num_workers: that it had.
        link: of its network interface.
        cpu_cores: cores' worth of processor time (None: no limit).
    """

    name: HostName
    num_workers: Workers
    link: Link
    cpu_cores: PositiveFloat | None = None


class CollectiveTable(Contract):
    """Seconds of one collective among `num_workers` workers.

    `shape` of a point is `(bytes,)`: of the reduced buffer for `all_reduce`; of the rows each worker
    sends for `all_to_all`, where all send and receive alike; of the rows that one worker of this
    device's host sends and receives alone for `all_to_all_port`, the same with every other; of the rows
    that one worker of this device's host and one of host `peer` send each other, and nobody else
    anything, for `all_to_all_pair`. `processor` holds the processor seconds that a call costs each
    worker, all its threads taken together (None: not measured).

    Args:
        peer: of a pair the other host, by its place among the profile's `members`; its own place where
            both workers are of this host (0 where there are no members).
    """

    collective: Literal["all_reduce", "all_to_all", "all_to_all_port", "all_to_all_pair"]
    backend: Literal["gloo", "nccl"]
    num_workers: int = Field(ge=2, le=MAX_WORKERS)
    table: OperatorTable
    processor: OperatorTable | None = None
    peer: NonNegativeInt | None = None

    @model_validator(mode="after")
    def _pairs_have_a_peer(self) -> CollectiveTable:
        if (self.peer is not None) != (self.collective == "all_to_all_pair"):
            raise ValueError("peer: an all_to_all_pair needs one, no other collective has one")
        return self


class CpuQuota(Contract):
    """A limit on a worker's processor time, as cgroups and containers set it.

    Args:
        share: of the time its threads could run that they may.
        period_s: in each of which the share is given anew; what is left of it is lost.
    """

    share: float = Field(gt=0, lt=1)
    period_s: SomeSeconds


class SharedMachine(Contract):
    """A machine that hosts of one session share, as containers and emulated hosts do.

    Args:
        name: equal for the hosts of one machine.
        num_hosts: of them; operators were timed while all computed.
        alone_share: seconds of operators while the others rest, over their seconds beside them: the median of some.
        num_cores: that any of the hosts may run on (None: a profile of a version that did not tell).
    """

    name: str = Field(min_length=1)
    num_hosts: int = Field(ge=2, le=MAX_WORKERS)
    alone_share: PositiveFloat
    num_cores: PositiveInt | None = None

    def share(self, num_computing: int) -> float:
        """The same while some of the hosts compute, of which this is one; what each more adds is taken as equal."""
        rest = (self.num_hosts - num_computing) / (self.num_hosts - 1)
        return 1 - (1 - self.alone_share) * min(max(rest, 0.0), 1.0)


class Correction(Contract):
    """What calibration changed of one operator (or collective): its seconds, multiplied by `factor`.

    Args:
        operator: name of an operator or collective, or `host_overhead`.
        num_samples: measured tasks the factor rests on.
        error_before, error_after: mean absolute relative error over those tasks.
    """

    operator: str
    factor: PositiveFloat
    num_samples: PositiveInt
    error_before: float = Field(ge=0)
    error_after: float = Field(ge=0)


class Anchor(Contract):
    """A point that was timed twice, where it stands in the profile and once more at its end."""

    operator: str
    shape: tuple[float, ...]
    first_s: float = Field(ge=0)
    again_s: float = Field(ge=0)

    @property
    def has_drifted(self) -> bool:
        """Whether one of the two took a third longer than the other."""
        low, high = sorted((self.first_s, self.again_s))
        return high > _DRIFT * low


class MachineProfile(Document):
    """What one device can do, as one worker of a run sees it.

    On a CPU the device is a worker's share of the machine: `num_threads` threads, timed while
    `num_workers_beside` workers in all ran the same operators, so that what they share is in
    the figures.

    Args:
        memory_bytes: what one worker may use.
        process_base_bytes: resident bytes of a worker before it holds any graph (0 on a device
            whose memory the process does not share).
        compiled_kernel_bytes: more where a program has operators that are compiled when first used.
        half_kernel_bytes: more where it multiplies numbers of two bytes.
        optimizer_class_bytes: more where steps are made by a class of `torch.optim`, which imports torch's compiler.
        pyg_bytes: beside these, more where a layer of somebody's own is run, whose file imports PyG.
        host_overhead_s: Python, autograd and launch seconds per scheduled task.
        step_overhead_s: seconds per training step that belong to no task.
        cpu_quota: found to limit the worker (None: nothing does). Operators were timed over many periods.
        session: hosts profiled side by side carry the same, and their collectives are among all
            their workers.
        members: the hosts of that session, by the ranks of their workers, as they were limited (none: a machine
            on its own, or a profile of a version that did not tell).
        host: the one of them that this is.
        alike: those of them that are of its kind, whose timings are in its own (`gnnplan.profiles.alike`).
        operators: name to table; the names are those of `gnnplan.profiles.operators.OPERATORS`.
        shared_machine: that the host shares with others of the session (None: with none, or it was not looked at).
        disk: of large files where the profile was taken (None: not measured).
        others_share: of the processor time while it was measured, used by other programs.
        anchors: a few points timed again at the end.
        corrections: what the last calibration changed (none: as profiled).
        based_on: fingerprint of the profile that was calibrated.
        calibrated_on: graphs and models of the runs that it was calibrated by, as fingerprints.
    """

    KIND: ClassVar[str] = "machine_profile"

    name: str = Field(min_length=1)
    device_kind: Literal["cpu", "cuda"]
    device_name: str
    num_threads: Workers = 1
    num_workers_beside: Workers = 1
    memory_bytes: SomeBytes
    process_base_bytes: Bytes = 0
    compiled_kernel_bytes: Bytes = 0
    half_kernel_bytes: Bytes = 0
    optimizer_class_bytes: Bytes = 0
    pyg_bytes: Bytes = 0
    host_overhead_s: Seconds
    step_overhead_s: Seconds = 0.0
    operators: dict[str, OperatorTable]
    collectives: tuple[CollectiveTable, ...] = ()
    cpu_quota: CpuQuota | None = None
    session: str = ""
    members: tuple[MeasuredHost, ...] = ()
    host: str = ""
    alike: tuple[HostName, ...] = ()
    shared_machine: SharedMachine | None = None
    disk: DiskRates | None = None
    others_share: float = Field(default=0.0, ge=0, le=1)
    anchors: tuple[Anchor, ...] = ()
    corrections: tuple[Correction, ...] = ()
    based_on: str = ""
    calibrated_on: tuple[str, ...] = ()
    software: dict[str, str] = Field(default_factory=dict)
    created: str = ""
    note: str = ""

    @model_validator(mode="after")
    def _host_is_a_member(self) -> MachineProfile:
        if self.host not in ([member.name for member in self.members] or [""]):
            raise ValueError("host: must be one of members, and empty where there are none")
        return self

    @property
    def drifted(self) -> tuple[Anchor, ...]:
        """Anchors that took another time at the end: the machine was not the same throughout."""
        return tuple(anchor for anchor in self.anchors if anchor.has_drifted)

    @property
    def own_host(self) -> MeasuredHost | None:
        """The host it was measured on, as it was limited; None where the profile does not tell."""
        return next((member for member in self.members if member.name == self.host), None)

"""Halo exchange that goes on with old rows and gradients where new ones come too late (NeutronCloud, section 5.2)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gnnplan.profiles.kernels.dense import gather_rows
from gnnplan.runtime.comm import HaloExchanger
from gnnplan.runtime.partial.lateness import Lateness
from gnnplan.runtime.transfer import Transfer


@dataclass
class PartialExchanger(HaloExchanger):
    """A `HaloExchanger` over a mailbox; before the first epoch and in evaluations it exchanges as that does."""

    lateness: Lateness

    @classmethod
    def over(cls, plain: HaloExchanger, lateness: Lateness) -> PartialExchanger:
        """The same exchange over a mailbox."""
        return cls(
            plain.send_rows, plain.send_counts, plain.recv_counts, plain.num_local, plain.recorder, lateness
        )  # fmt: skip

    def begin(self, epoch: int | None) -> None:
        """Says which epoch is trained (None: it is an evaluation); saying it again changes nothing."""
        self.lateness.begin(epoch)

    def begin_fetch(self, x: Tensor, name: str, *, beside: bool = True) -> Transfer:
        """The newest halo rows [h, width] of `x` [n, width] that are to be had: it waits for them."""
        if not self.lateness.is_training:
            return super().begin_fetch(x, name, beside=beside)
        with self.recorder.span(f"{name}/pack/forward"):
            rows = gather_rows(x, self.send_rows)
        return self._newest(f"{name}/exchange/forward", f"{name}/forward", rows)

    def begin_give_back(self, grad_halo: Tensor | None, name: str, *, beside: bool = True) -> Transfer:
        """The newest gradients [s, width] to be had that the receivers' halos have of the rows sent."""
        assert grad_halo is not None
        return self._newest(f"{name}/exchange/backward", f"{name}/backward", grad_halo)

    def _newest(self, key: str, slot: str, rows: Tensor) -> Transfer:
        with self.recorder.span(key, "communicate"):
            self.recorder.sent_bytes += rows.nbytes
            return Transfer(self.lateness.newest(slot, rows))

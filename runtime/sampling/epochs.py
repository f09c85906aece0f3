"""What every epoch of a loader draws from, and the order of its seeds."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnnplan.profiles.kernels.counter import chained_key


@dataclass(frozen=True)
class Drawn:
    """One epoch.

    Args:
        seed, number: that stand in the keys of its draws.
        order: int64 [S], positions of the seeds; or those of every batch, where somebody else chooses them.
    """

    seed: int
    number: int
    order: Tensor | Sequence[Tensor]

    def positions(self, index: int, batch_size: int | None) -> Tensor:
        """Of the seeds of a batch, int64 [B]."""
        if not isinstance(self.order, Tensor):
            return self.order[index]
        assert batch_size is not None
        return self.order[index * batch_size : (index + 1) * batch_size]


class Epochs:
    """The epochs of a loader; any thread may ask.

    With a seed every epoch is a pure function of it. Without one an epoch is drawn from torch's generator when its
    iteration begins, in the order in which a `DataLoader` draws: so seeds come in the order in which PyG's come. An
    epoch that was drawn stays as it was. One that is asked for before follows from the generator's initial seed.

    Args:
        num_seeds: S.
        shuffle: draw the order of the seeds.
        seed: of everything (None: the generator's).
        generator: None is torch's own.
        batches: chooses the positions of every batch in place of this, as a batch sampler of torch does (None: nobody).
    """

    def __init__(
        self,
        num_seeds: int,
        *,
        shuffle: bool = False,
        seed: int | None = None,
        generator: torch.Generator | None = None,
        batches: Any = None,
    ) -> None:
        self._num_seeds, self._shuffle, self._seed = num_seeds, shuffle, seed
        self._generator, self._batches = generator, batches
        self._initial = (generator.initial_seed() if generator else torch.initial_seed()) if seed is None else seed
        self._drawn: dict[int, tuple[int, Tensor | None]] = {}  # the seed, and the generator's state before the order
        self._last: tuple[int, Drawn] | None = None
        self._lock = threading.Lock()

    def begin(self, epoch: int) -> Drawn:
        """The epoch whose iteration begins; it is drawn now, where it was not yet."""
        if self._seed is None and epoch not in self._drawn:
            base = int(torch.empty((), dtype=torch.int64).random_(generator=self._generator))
            self._drawn[epoch] = base, self._state_of_order()
            if self._generator is not None and self._shuffle:
                for _ in range(
                    2
                ):  # the order that follows from its state, and a second one that torch draws for nothing
                    torch.randperm(self._num_seeds, generator=self._generator)
        self._last = epoch, self._made(epoch)
        return self._last[1]

    def of(self, epoch: int) -> Drawn:
        """An epoch, begun or not."""
        last = self._last
        if last is not None and last[0] == epoch:
            return last[1]
        with self._lock:
            if self._last is None or self._last[0] != epoch:
                self._last = epoch, self._made(epoch)  # one assignment: threads see an epoch with its own order
            return self._last[1]

    def _made(self, epoch: int) -> Drawn:
        if epoch not in self._drawn:
            return Drawn(self._initial, epoch, self._chosen() or self._order(chained_key(self._initial, epoch) >> 1))
        seed, state = self._drawn[epoch]
        return Drawn(seed, 0, self._chosen() or self._order(state))

    def _chosen(self) -> Sequence[Tensor]:
        """What somebody else chose; empty where nobody does."""
        if self._batches is None:
            return ()
        return [torch.as_tensor(positions, dtype=torch.int64).view(-1) for positions in self._batches]

    def _order(self, draws: int | Tensor | None) -> Tensor:
        """Positions of all seeds, by a seed or by a generator's state."""
        if not self._shuffle:
            return torch.arange(self._num_seeds)
        generator = torch.Generator()
        if isinstance(draws, Tensor):
            generator.set_state(draws)
        else:
            assert draws is not None
            generator.manual_seed(draws)
        return torch.randperm(self._num_seeds, generator=generator)

    def _state_of_order(self) -> Tensor | None:
        """Of the generator that shuffles an epoch: a given one itself, else one seeded from torch's own."""
        if not self._shuffle:
            return None
        if self._generator is not None:
            return self._generator.get_state()
        return torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_())).get_state()

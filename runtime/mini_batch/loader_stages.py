"""The stages of mini-batch training with a `NeighborLoader` and a PyG model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch_geometric.data import Data

from gnnplan.runtime.sampling.loader import NeighborLoader
from gnnplan.runtime.sampling.source import Source

Loss = Callable[[Tensor, Tensor], Tensor]


class LoaderStages:
    """Batches of a loader, trained by any model that takes `(x, edge_index)`.

    Without `gpu_source` a batch "made by the GPU" is made by the CPU in the GPU's turn: routes then differ in
    when batches are made and in nothing else. On CUDA every stage has a stream of its own and returns when
    its stream is idle, so that a batch is never used before it is there.

    Args:
        loader: its batches are pure functions of (epoch, index), so it does not matter who makes one.
        model: on `device`; trained on the seeds of a batch, which come first among its vertices. Features of
            another floating-point type, half ones for instance, are converted to its own when it is trained.
        optimizer: of the model's parameters.
        loss: of logits [B, C] and labels [B].
        gpu_source: makes the GPU's batches (`gnnplan.runtime.sampling.device.DeviceSource`); may be set later.
    """

    def __init__(
        self,
        loader: NeighborLoader,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        loss: Loss = torch.nn.functional.cross_entropy,
        device: torch.device = torch.device("cpu"),  # noqa: B008
        gpu_source: Source | None = None,
    ) -> None:
        self.loader, self.model, self.optimizer, self.loss, self.device = loader, model, optimizer, loss, device
        self.gpu_source, self.is_one_memory = gpu_source, device.type == "cpu"
        sliced = [value for value in loader.sliced().values() if isinstance(value, Tensor)]
        self._gathers_on = {value.device for value in sliced if value.is_cuda}
        has_cuda = device.type == "cuda"
        self._copying, self._computing = (torch.cuda.Stream(device) if has_cuda else None for _ in range(2))
        self._synchronize()  # the model may still be on its way

    @property
    def is_resident(self) -> bool:
        """Whether the GPU makes batches from what lies on the device alone."""
        return self.gpu_source is not None and self.gpu_source.is_resident

    def cpu_batch(self, epoch: int, index: int) -> Data:
        """Sampled, and gathered in host memory; attributes that lie on a device are gathered there."""
        batch = self.loader.batch(epoch, index)
        for device in self._gathers_on:  # on this thread's own stream, which the other stages do not wait for
            torch.cuda.current_stream(device).synchronize()
        return batch

    def transfer(self, batch: Data) -> Data:
        """Copied to the device."""
        with _on(self._copying):
            return batch.to(self.device, non_blocking=True)

    def gpu_batch(self, epoch: int, index: int) -> Data:
        """Made in device memory, or made by the CPU and copied at once."""
        if self.gpu_source is None:
            return self.transfer(self.cpu_batch(epoch, index))
        with _on(self._computing):
            return self.loader.batch(epoch, index, self.gpu_source).to(self.device)

    def train(self, batch: Data) -> float:
        """One step on the mean loss of the batch's seeds."""
        with _on(self._computing):
            self.optimizer.zero_grad(set_to_none=True)
            logits = self.model(_as_trained(batch.x, self.model), batch.edge_index)[: batch.batch_size]
            loss = self.loss(logits, batch.y[: batch.batch_size])
            loss.backward()
            self.optimizer.step()
            return float(loss.detach())

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Puts model and optimizer back as they were, for training that is only a measurement."""
        before = copy.deepcopy((self.model.state_dict(), self.optimizer.state_dict()))
        self._synchronize()
        try:
            yield
        finally:
            self._synchronize()
            self.model.load_state_dict(before[0])
            self.optimizer.load_state_dict(before[1])
            self._synchronize()

    def _synchronize(self) -> None:
        """Weights are copied on another stream than they are trained on."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _as_trained(x: Tensor, model: torch.nn.Module) -> Tensor:
    """Features in the type of the model's parameters; integers stay what they are."""
    own = next((parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()), x.dtype)
    return x.to(own) if x.is_floating_point() else x


@contextmanager
def _on(stream: torch.cuda.Stream | None) -> Iterator[None]:
    """What is done within is done on the stream, and over when the context is left."""
    with torch.cuda.stream(stream):
        try:
            yield
        finally:  # also after an error: memory freed then must not be read any more
            if stream is not None:
                stream.synchronize()

"""Tensors that say they lie on a GPU, and operations on them.

A `FakeTensor` has `device="cuda:N"`, and its numbers are those of a CPU tensor within. So code takes the ways that it
takes on a GPU, operator by operator, and what it computes can be compared. Torch's own `FakeTensorMode` has no numbers,
and without them neither sparse matrices nor what depends on a value can be followed; it also needs an extension in C++,
for some calls look for a driver first. Those calls are taken over here (`_GUARDED`). What is watched: tensors of
different devices in one operation, host and device waiting for each other, bytes, and the order of streams.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks._fake_memory import Memory, storages
from benchmarks._fake_streams import Order

CPU = torch.device("cpu")
_WAITING = {
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::masked_select",
    "aten::equal",
    "aten::bincount",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_consecutive",
    "aten::histc",
    "aten::item",
    "aten::tolist",
}
"""Operations of which the host waits for the result, or for its size."""
_COPIES = {"aten::_to_copy", "aten::copy_"}
_INDEXING = {"aten::index", "aten::index_put_", "aten::_index_put_impl_", "aten::__getitem__", "aten::__setitem__"}


class FakeTensor(Tensor):
    """A tensor on a device that is not there.

    Args:
        numbers: of the same shape, on the CPU.
    """

    numbers: Tensor

    @staticmethod
    def __new__(cls, numbers: Tensor, device: torch.device):
        lies = numbers.layout == torch.strided
        at = {"strides": numbers.stride(), "storage_offset": numbers.storage_offset()} if lies else {}
        return Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=numbers.dtype, device=device, **at)

    def __init__(self, numbers: Tensor, device: torch.device) -> None:
        self.numbers = numbers

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} on a fake tensor outside of its device")


def numbers_of(tensor: Tensor) -> Tensor:
    """Those of a fake tensor, or the tensor itself."""
    return tensor.numbers if isinstance(tensor, FakeTensor) else tensor


class FakeDevice:
    """One GPU that is not there. As a context it is this thread's.

    Args:
        device: with its index.

    Attributes:
        operator: which one runs (empty: none), and `is_crossing`: whether the program has it go between tiers.
        kinds: of operators that ran.
        wrong, unordered: what was wrong, in words; waits: (operator, what) that host and device waited for.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.operator, self.is_crossing = device, "", False
        self.kinds: set[str] = set()
        self.wrong: list[str] = []
        self.unordered: list[str] = []
        self.waits: Counter[tuple[str, str]] = Counter()
        self.order = Order(lambda words: self.unordered.append(f"{self.operator}: {words}"))
        self.memory = Memory(self.order.freed)
        self._modes = ExitStack()

    def __enter__(self) -> FakeDevice:
        self._modes.enter_context(_Functions(self))
        self._modes.enter_context(_Operations(self))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._modes.close()

    def put(self, numbers: Tensor) -> FakeTensor:
        """A tensor on the device with these numbers, whose memory it takes over."""
        self.memory.hold(numbers)
        return FakeTensor(numbers, self.device)

    def host_waits(self, what: str) -> None:
        """Counts that host and device wait for each other, but for an operator that is planned to."""
        if not self.is_crossing:
            self.waits[self.operator, what] += 1

    def operate(self, name: str, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """An operation with any of its tensors on the device, or that makes one there."""
        leaves = list(_leaves((args, kwargs)))
        fakes = [leaf for leaf in leaves if isinstance(leaf, FakeTensor)]
        asked = kwargs.get("device")
        if not fakes and (asked is None or torch.device(asked).type != "cuda"):
            return func(*args, **kwargs)
        target = torch.device(asked) if asked is not None else self.device
        self._check(name, leaves, target)
        self._count_waits(name, fakes, args, kwargs, target)
        own_args, own_kwargs = _mapped(numbers_of, (args, kwargs))
        if asked is not None:
            own_kwargs["device"] = CPU
        out = func(*own_args, **own_kwargs)
        self._note_order(name, func, args, kwargs, out)
        given = {id(fake.numbers): fake for fake in fakes} | {
            id(leaf): leaf for leaf in leaves if not isinstance(leaf, FakeTensor)
        }
        return _mapped(lambda tensor: self._given_or_new(tensor, given, target), out)

    def _given_or_new(self, tensor: Tensor, given: dict[int, Tensor], target: torch.device) -> Tensor:
        if id(tensor) in given:
            found = given[id(tensor)]
            assert found.shape == tensor.shape, "an operation changed the shape of what it was to write to"
            return found
        return self.put(tensor) if target.type == "cuda" else tensor

    def _check(self, name: str, leaves: list[Tensor], target: torch.device) -> None:
        """All tensors on this device; single numbers may come from the host, and copies from anywhere."""
        elsewhere = {leaf.device for leaf in leaves if leaf.device != self.device and leaf.dim() > 0}
        if name not in _COPIES and elsewhere:
            self.wrong.append(f"{self.operator}: {name} with tensors on {', '.join(map(str, elsewhere))}")
        if any(device.type == "cuda" for device in (*elsewhere, target) if device != self.device):
            self.wrong.append(f"{self.operator}: {name} with another GPU's memory")

    def _count_waits(self, name: str, fakes: list[FakeTensor], args: tuple, kwargs: dict, target) -> None:
        if name in _COPIES:
            sides = {leaf.device.type for leaf in args if isinstance(leaf, Tensor)} | (
                {target.type} if name == "aten::_to_copy" else set()
            )
            if len(sides) > 1:
                self.host_waits(f"{name} between host and device")
        elif name in _WAITING:
            self.host_waits(name)
        elif name == "aten::repeat_interleave" and kwargs.get("output_size") is None:
            self.host_waits("repeat_interleave of unknown size")
        elif name in _INDEXING and any(fake.dtype == torch.bool for fake in fakes[1:]):
            self.host_waits("index by a mask")

    def _note_order(self, name: str, func: Any, args: tuple, kwargs: dict[str, Any], out: Any) -> None:
        written = [leaf for leaf in _leaves(_written(func, args, kwargs)) if isinstance(leaf, FakeTensor)]
        read = [leaf for leaf in _leaves((args, kwargs)) if isinstance(leaf, FakeTensor)]
        before = set(_keys(fake.numbers for fake in read))
        new = [key for key in _keys(_leaves(out)) if key not in before]
        if new or written or name in _WAITING | _COPIES:  # else it is a view
            self.order.operate(name, list(before), [*new, *_keys(fake.numbers for fake in written)])


def _leaves(value: Any) -> Iterator[Tensor]:
    """The tensors in tuples, lists and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)


def _mapped(change: Callable[[Tensor], Any], value: Any) -> Any:
    """The same with every tensor changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)(_mapped(change, part) for part in value)
    return {name: _mapped(change, part) for name, part in value.items()} if isinstance(value, dict) else value


def _keys(tensors) -> list[int]:
    return [storage._cdata for tensor in tensors for storage in storages(tensor)]


def _written(func: Any, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """Arguments that an operation writes to, by its schema."""
    if not hasattr(func, "_schema"):
        return [args[0]] if func in (Tensor.__setitem__, Tensor.copy_) else []
    found = []
    for number, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found.append(args[number] if number < len(args) else kwargs.get(argument.name))
    return found


class _Operations(TorchDispatchMode):
    """Runs operations on fake tensors by those within."""

    def __init__(self, of: FakeDevice) -> None:
        super().__init__()
        self._of = of

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in REWRITTEN and any(isinstance(leaf, FakeTensor) for leaf in args):
            with self:
                return REWRITTEN[func](*args, **(kwargs or {}))
        return self._of.operate(func._schema.name, func, args, dict(kwargs or {}))


class _Functions(TorchFunctionMode):
    """What torch does in C++ before it asks anybody else: there it would look for a driver."""

    def __init__(self, of: FakeDevice) -> None:
        super().__init__()
        self._of = of

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.tensor and kwargs.get("device") is not None:
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        if args and func in _HOST and isinstance(args[0], FakeTensor):
            self._of.host_waits("aten::_local_scalar_dense")
            return func(args[0].numbers)
        if func in _GUARDED:
            return self._of.operate(f"aten::{func.__name__}", func, args, kwargs)
        if func is Tensor.numpy and isinstance(args[0], FakeTensor):
            raise TypeError("a CUDA tensor has no NumPy array: copy it to the host first")
        return func(*args, **kwargs)


_HOST = {Tensor.item, Tensor.tolist, Tensor.__float__, Tensor.__int__, Tensor.__bool__, Tensor.__index__}
_GUARDED = {Tensor.__getitem__, Tensor.__setitem__, Tensor.contiguous, Tensor.copy_, Tensor.nonzero}


def _binary_cross_entropy_with_logits(x: Tensor, y: Tensor, weight=None, pos_weight=None, reduction: int = 1):
    """As torch has it, in the operations of which it consists on a GPU."""
    assert weight is pos_weight is None
    below = torch.nn.functional.softplus(x.neg())
    loss = (1 - y).mul_(x).add_(below)
    return (loss, loss.mean() if reduction == 1 else None, loss.sum())[reduction]


REWRITTEN = {torch.ops.aten.binary_cross_entropy_with_logits.default: _binary_cross_entropy_with_logits}
"""Operations that are one on a CPU, and whose temporaries are tensors of their own on a GPU."""

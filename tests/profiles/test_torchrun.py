"""What all workers share: a command line, errors reported to the launcher's folder, a device, a group where needed."""

import argparse
import importlib
import json
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from gnnplan.profiles.roll_call import LostWorkerError, all_come
from gnnplan.profiles.torchrun import local_device, process_group, start_worker, worker_parser


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """This process as the only worker, started with a plan and a folder."""
    for key, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(sys, "argv", ["worker", "plan.json", str(tmp_path), "--timeout-s=7"])
    return tmp_path


def parser():
    made = worker_parser("some.module", "What it does.")
    made.add_argument("plan", type=Path)
    return made


def test_a_worker_gets_its_arguments(alone):
    """Its own, the folder, and the timeout."""
    got = []
    start_worker(parser(), got.append)
    assert got == [argparse.Namespace(plan=Path("plan.json"), folder=alone, timeout_s=7.0)]
    assert not list(alone.iterdir())


def test_an_error_is_reported_to_the_folder(alone):
    """And the worker ends with code 1."""

    def run(_arguments):
        raise ValueError("no such shelf")

    with pytest.raises(SystemExit) as ended:
        start_worker(parser(), run)
    assert ended.value.code == 1
    assert json.loads((alone / "worker_0.error.json").read_text())["error"] == "ValueError: no such shelf"


def test_one_worker_needs_no_group(alone):
    """Nothing is listened on and nothing initialised."""
    with process_group(torch.device("cpu"), 5.0):
        assert not dist.is_initialized()


def test_a_group_ends_with_its_context(alone, monkeypatch):
    """Also where an error leaves it; its backend is that of the device."""
    calls = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    store = dist.HashStore()
    store.set("coming/1", "here")
    monkeypatch.setattr(dist, "rendezvous", lambda url, timeout: iter([(store, 0, 2)]))
    monkeypatch.setattr(
        dist,
        "init_process_group",
        lambda backend, store, rank, world_size, timeout: calls.append((backend, rank, world_size, timeout.seconds)),
    )
    monkeypatch.setattr(dist, "is_initialized", lambda: len(calls) == 1)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: calls.append("destroyed"))

    def fail(device):
        with process_group(device, 5.0):
            raise InterruptedError

    for device, backend in ((torch.device("cpu"), "gloo"), (torch.device("cuda", 0), "nccl")):
        calls.clear()
        with pytest.raises(InterruptedError):
            fail(device)
        assert calls == [(backend, 0, 2, 5), "destroyed"]


def test_who_does_not_come_is_named(alone):
    """By those that wait, which have come themselves."""
    store = dist.HashStore()
    store.set("coming/2", "here")
    with pytest.raises(LostWorkerError, match=r"worker 1, 3 has not started within 0\.2 s") as caught:
        all_come(store, 0, 4, 0.2)
    assert caught.value.missing == (1, 3)
    assert store.get("coming/0") == b"here"


def test_the_device_is_the_local_ranks(alone, monkeypatch):
    """Of CUDA's where there are any, made the current one."""
    current = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert local_device() == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert [local_device()] == current == [torch.device("cuda", 3)]


@pytest.mark.parametrize(
    ("module", "name", "first"),
    [
        ("gnnplan.runtime.__main__", "gnnplan.runtime", "plan"),
        ("gnnplan.runtime.mini_batch.__main__", "gnnplan.runtime.mini_batch", "job"),
        ("gnnplan.profiles.worker", "gnnplan.profiles.worker", "folder"),
    ],
)
def test_every_worker_module_says_how_it_is_called(module, name, first, monkeypatch, capsys):
    """By its own name, with what it needs first."""
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(module).main()
    assert ended.value.code == 0
    usage = " ".join(capsys.readouterr().out.split())
    assert usage.startswith(f"usage: torchrun -m {name} ")
    assert "folder" in usage
    assert f"positional arguments: {first} " in usage

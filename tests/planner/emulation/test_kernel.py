"""What an emulation asks of the kernel, on folders that stand in for its own: quotas, refusals, and what is undone."""

import os
import shutil
import subprocess

import pytest

from gnnplan.planner import commands  # noqa: F401  what `main` imports, before anything is patched
from gnnplan.planner.cli import main
from gnnplan.planner.emulation import kernel
from gnnplan.profiles.errors import RunFailedError, UserError


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """The folder that stands in for the mounted control groups; there are no namespaces."""
    made = tmp_path / "groups"
    made.mkdir()
    (tmp_path / "namespaces").mkdir()
    monkeypatch.setattr(kernel, "_CGROUP_ROOT", made)
    monkeypatch.setattr(kernel, "_NAMESPACES", tmp_path / "namespaces")
    return made


@pytest.fixture
def version_2(groups):
    """They are of version 2, which does not give out the cpu controller yet."""
    (groups / "cgroup.controllers").write_text("cpuset cpu io memory\n")
    (groups / "cgroup.subtree_control").write_text("memory\n")
    return groups


@pytest.fixture
def folder(tmp_path):
    """Of the emulation."""
    made = tmp_path / "folder"
    made.mkdir()
    return made


def test_version_2_has_its_controller_enabled_and_disabled_again(version_2, folder):
    """Once, by the emulation that asked for it; quotas are those of version 2."""
    control = version_2 / "cgroup.subtree_control"
    kernel.enable_cpu(folder)
    assert control.read_text() == "+cpu"
    quota = kernel.make_command_cgroup("e").with_name("e-0") / "cpu.max"
    quota.parent.mkdir()
    quota.touch()
    kernel.set_cpu("e", 0, 0.5)
    assert quota.read_text() == "5000 10000"
    kernel.set_cpu("e", 0, None)
    assert quota.read_text() == "max 10000"
    quota.unlink()  # files of the kernel's own do not keep a group
    kernel.take_down("e", folder)
    assert control.read_text() == "-cpu"
    assert sorted(path.name for path in version_2.iterdir()) == ["cgroup.controllers", "cgroup.subtree_control"]
    assert not folder.exists()


def test_a_controller_that_was_enabled_stays(version_2, folder):
    """It is not the emulation's to take away."""
    control = version_2 / "cgroup.subtree_control"
    control.write_text("cpu memory")
    kernel.enable_cpu(folder)
    kernel.take_down("e", folder)
    assert control.read_text() == "cpu memory"


@pytest.mark.parametrize("others", ["gnnplan1-0", "limited.service"])
def test_a_controller_that_others_use_stays(others, version_2, folder):
    """Another emulation, or a group that has a quota by now."""
    kernel.enable_cpu(folder)
    (version_2 / others).mkdir()
    (version_2 / others / "cpu.max").write_text("max 100000" if "-" in others else "5000 10000")
    kernel.take_down("e", folder)
    assert (version_2 / "cgroup.subtree_control").read_text() == "+cpu"


def refuse(path):
    """A folder takes no text: root, who may write everywhere, is refused too."""
    path.unlink(missing_ok=True)
    path.mkdir(parents=True)


def test_a_controller_that_cannot_be_enabled_is_named(version_2, folder):
    """As in a container that sees its groups and may not change them; nothing is left to be undone."""
    refuse(version_2 / "cgroup.subtree_control")
    with pytest.raises(UserError, match=r"subtree_control: '\+cpu' cannot be written \(Is a directory\); run it"):
        kernel.enable_cpu(folder)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("quota", ["cpu.max", "cpu.cfs_quota_us"])
def test_a_quota_that_is_refused_is_named(quota, groups):
    """As of more than the container has itself, by either version."""
    (groups / "cpu").mkdir()
    (groups / "cpu" / "tasks").touch()
    refuse(kernel.cgroup_of("e", 0) / quota)
    with pytest.raises(UserError, match=rf"e-0/{quota}: '80000.*' cannot be written"):
        kernel.set_cpu("e", 0, 8)


def test_a_group_that_cannot_be_made_is_named(groups, monkeypatch):
    """For a host, and for the command."""
    (groups / "cpu").mkdir()
    (groups / "cpu" / "tasks").touch()
    monkeypatch.setattr(kernel, "_run", lambda *_: None)
    kernel.make_host("e", 0, "10.213.0.1")
    with pytest.raises(UserError, match=r"e-0: cannot be made \(File exists\)"):
        kernel.make_host("e", 0, "10.213.0.1")
    kernel.make_command_cgroup("e")
    with pytest.raises(UserError, match=r"e-command: cannot be made \(File exists\)"):
        kernel.make_command_cgroup("e")


def test_a_command_that_does_not_answer_is_named(monkeypatch):
    """Instead of waited for."""

    def hang(command, *, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(UserError, match="emulate: ip netns add e-switch: no answer within 30 s"):
        kernel.make_switch("e")


@pytest.mark.parametrize("version", [1, 2])
def test_read_only_groups_are_one_line(version, version_2, tmp_path, monkeypatch, capsys):
    """Before anything is brought up, by exit code 2."""
    if version == 1:
        (version_2 / "cpu").mkdir()
        (version_2 / "cpu" / "tasks").touch()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: tool)
    monkeypatch.setattr(os, "access", lambda path, _: not str(path).startswith(str(version_2)))
    monkeypatch.setattr(kernel, "enable_cpu", lambda _: pytest.fail("it went on"))
    path = tmp_path / "cluster.toml"
    path.write_text("schema_version = 1\n[[hosts]]\nname = 'a'\n[[hosts.devices]]\ncatalog = 't4'\n")
    assert main(["emulate", str(path), "--", "true"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("gnnplan: emulate needs CPU cgroups that it can write")
    assert "groups" in err
    assert err.count("\n") == 1


def test_what_cannot_be_removed_keeps_nothing_else(tmp_path, monkeypatch):
    """It is named, with why; all the rest is gone, and it too when tried again."""
    cgroups, namespaces, folder = (tmp_path / name for name in ("cgroups", "namespaces", "folder"))
    for made in (cgroups / "e-0" / "busy", cgroups / "e-1", cgroups / "e-command", cgroups / "other-0", folder / "in"):
        made.mkdir(parents=True)
    namespaces.mkdir()
    for name in ("e-0", "e-switch", "other-0"):
        (namespaces / name).touch()

    def delete(*command):
        if command[-1] == "e-0" and (cgroups / "e-0").exists():
            raise UserError("ip: no")
        (namespaces / command[-1]).unlink()

    monkeypatch.setattr(kernel, "_cpu_hierarchy", lambda: cgroups)
    monkeypatch.setattr(kernel, "_NAMESPACES", namespaces)
    monkeypatch.setattr(kernel, "_run", delete)
    monkeypatch.setattr(kernel, "_REMOVE_WAIT_S", 0.1)
    with pytest.raises(RunFailedError, match=r"cgroups/e-0 \(.*; .*namespaces/e-0 \(ip: no\)$"):
        kernel.take_down("e", folder)
    assert sorted(path.name for path in cgroups.iterdir()) == ["e-0", "other-0"]
    assert sorted(path.name for path in namespaces.iterdir()) == ["e-0", "other-0"]
    assert not folder.exists()
    (cgroups / "e-0" / "busy").rmdir()
    kernel.take_down("e", folder)
    kernel.take_down("e", folder)
    assert [path.name for place in (cgroups, namespaces) for path in place.iterdir()] == ["other-0", "other-0"]


def test_a_tenth_of_a_core_can_be_emulated():
    """By itself, or as what weather leaves; a host without a limit has none in any weather."""
    for cores in (0.1, 0.2 * 0.5, 0.7 * (1 / 7), None):
        kernel.check_cores(cores, "a")


def test_without_root_it_says_so(monkeypatch):
    """One line that names what is missing."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match="needs root"):
        kernel.require_emulation()


def test_without_iproute2_it_says_so(monkeypatch):
    """One line that names the package."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    with pytest.raises(UserError, match="iproute2"):
        kernel.require_emulation()


@pytest.mark.parametrize("bits_per_s", [8e3, 1e7, 2e8, 1e9, 1e10, 1e11])
def test_a_link_saves_up_no_more_than_a_packet(monkeypatch, bits_per_s):
    """After a rest it lets pass a third of a millisecond's worth, or the least packet; both ends alike."""
    ran = []
    monkeypatch.setattr(kernel, "_run", lambda *command: ran.append(command))
    kernel.set_link("some", 0, bits_per_s / 8, change=False)
    packets = [int(command[-1]) for command in ran if command[0] == "ip"]
    bursts = [int(command[command.index("burst") + 1]) for command in ran if command[0] == "tc"]
    assert len(packets) == len(bursts) == 2
    assert packets[0] == packets[1] <= 65_536  # the most that every kernel takes
    frames = -(-packets[0] // 1448)
    assert bursts[0] == bursts[1] >= packets[0] + 66 * frames  # as the kernel counts them
    assert bursts[0] <= max(bits_per_s / 8 * 0.33e-3, 4_600)

"""The limit is read from control groups of either version, the tightest on the way up."""

import pytest

from gnnplan.profiles.cgroups import CoreLimit, core_limit, groups_of


@pytest.fixture
def groups(tmp_path):
    """Writes files under a pretended mount and the membership beside it, and reads the limit."""

    def read(membership, files):
        mounted = tmp_path / "cgroup"
        for name, text in files.items():
            path = mounted / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "self").write_text(membership)
        return core_limit(mounted, tmp_path / "self")

    return read


def test_version_2(groups):
    """`cpu.max` holds the quota and the period in microseconds."""
    limit = groups("0::/box/inner\n", {"box/inner/cpu.max": "150000 100000\n", "cpu.max": "max 100000\n"})
    assert limit == CoreLimit(1.5, 0.1)


def test_version_1(groups):
    """The quota and the period have a file each, in the hierarchy of the cpu controller."""
    files = {"cpu,cpuacct/box/cpu.cfs_quota_us": "4000\n", "cpu,cpuacct/box/cpu.cfs_period_us": "10000\n"}
    limit = groups("3:memory:/other\n2:cpu,cpuacct:/box\n0::/\n", files)
    assert limit == CoreLimit(0.4, 0.01)


def test_the_tightest_on_the_way_up_counts(groups):
    """A group cannot use more than the one it lies in."""
    files = {"a/cpu.max": "50000 100000", "a/b/cpu.max": "200000 100000"}
    assert groups("0::/a/b\n", files) == CoreLimit(0.5, 0.1)


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"a/cpu.max": "max 100000\n"},
        {"a/cpu.max": "nonsense\n"},
        {"a/cpu.max": ""},
        {"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/a/cpu.cfs_period_us": "100000\n"},
    ],
)
def test_no_limit(groups, files):
    """Nothing there, nothing set or nothing that can be read: no limit is known of."""
    assert groups("1:cpu:/a\n0::/a\n", files) is None


def test_no_membership_is_no_limit(tmp_path):
    """Elsewhere than on Linux there is no such file."""
    assert core_limit(tmp_path, tmp_path / "missing") is None


def test_the_groups_of_memory(tmp_path):
    """Of version 2 and of the hierarchy of the memory controller, from the process's own upwards."""
    (tmp_path / "self").write_text("3:memory:/job\n2:cpu,cpuacct:/box\n0::/job/step\n")
    found = [str(each.relative_to(tmp_path)) for each in groups_of("memory", tmp_path, tmp_path / "self")]
    assert found == ["memory/job", "memory", "job/step", "job", "."]

"""The profile of this machine is measured once, and kept by what the machine is."""

import pytest

from gnnplan.profiles import kept
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.kept import cache_folder, kept_profile, machine_fingerprint


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """The names of the profiles measured, where measuring is free and the cache a folder of this test."""
    names = []

    def profile_machine(*, num_workers, quick, on_progress):
        names.append(f"measured-{len(names)}")
        return catalog_profile("t4").model_copy(update={"name": names[-1], "num_workers_beside": num_workers or 2})

    monkeypatch.setenv("GNNPLAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept, "profile_machine", profile_machine)
    return names


def test_it_is_measured_once(measured):
    """The second time it is read from its file."""
    first, path = kept_profile()
    again, same = kept_profile()
    assert (first, path) == (again, same)
    assert measured == ["measured-0"]
    assert path.parent == cache_folder() / "profiles"


def test_fresh_ones_replace_it(measured):
    """Also for those who ask later."""
    kept_profile()
    fresh, _ = kept_profile(fresh=True)
    assert fresh.name == kept_profile()[0].name == "measured-1"


def test_another_number_of_workers_is_another_profile(measured):
    """Workers share the machine, so their number is in the figures."""
    assert kept_profile(num_workers=1)[1] != kept_profile(num_workers=2)[1]
    assert len(measured) == 2


def test_another_machine_is_another_profile(monkeypatch):
    """Other cores, limits or libraries make other figures, and so does a version that measures something else."""
    here = machine_fingerprint()
    assert here == machine_fingerprint()
    with monkeypatch.context() as other:
        other.setattr(kept, "num_usable_cores", lambda: 977)
        assert machine_fingerprint() != here
    monkeypatch.setattr(kept, "OPERATORS", {"another": None})
    assert machine_fingerprint() != here


def test_what_this_version_does_not_read_is_measured_again(measured):
    """An older version's profile, or half a file, is no reason to fail."""
    _, path = kept_profile()
    path.write_text("{}")
    assert kept_profile()[0].name == "measured-1"


def test_where_the_cache_is(monkeypatch, tmp_path):
    """The variable of its own, then the desktop's, then the home folder."""
    monkeypatch.setenv("GNNPLAN_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("GNNPLAN_CACHE")
    assert cache_folder() == tmp_path / "shared" / "gnnplan"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "gnnplan"


def test_an_unwritable_cache_is_one_line_before_anything_is_measured(measured, monkeypatch, tmp_path):
    """It takes a minute to measure."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GNNPLAN_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="cannot be written"):
        kept_profile()
    assert measured == []

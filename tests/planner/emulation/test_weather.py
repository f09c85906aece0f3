"""The weather: piecewise shares of a host's rates."""

import pytest

from gnnplan.planner.emulation.weather import Spell, Weather
from gnnplan.profiles.errors import UserError


def weather(*spells: Spell) -> Weather:
    return Weather(schema_version=1, spells=spells)


def test_overlapping_spells_multiply_and_end():
    """Within both spells the shares multiply; after them the host is back at its own rates."""
    changing = weather(Spell(host="a", from_s=1, to_s=5, cpu=0.5), Spell(host="a", from_s=3, to_s=9, cpu=0.4, link=0.1))
    assert changing.factors("a", 0.5) == (1.0, 1.0)
    assert changing.factors("a", 1) == (0.5, 1.0)
    assert changing.factors("a", 4) == (0.2, 0.1)
    assert changing.factors("a", 9) == (1.0, 1.0)
    assert changing.factors("b", 4) == (1.0, 1.0)


def test_changes_are_every_edge_once_in_order():
    """The keeper acts at each moment at which anything changes."""
    changing = weather(Spell(host="a", from_s=4, to_s=6), Spell(host="b", from_s=1, to_s=4))
    assert changing.change_times_s() == [1, 4, 6]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[[spells]]\nhost = "a"\nfrom_s = 5\nto_s = 5', "must be after"),
        ('[[spells]]\nhost = "a"\nfrom_s = 5\nto_s = 6\ncpu = 0.0', "spells.0.cpu"),
        ('[[spells]]\nhost = "a"\nfrom_s = 5\nto_s = 6\nwind = 1.0', "spells.0.wind: unknown key"),
    ],
)
def test_a_faulty_file_names_the_fault(tmp_path, text, named):
    """A spell that ends before it begins, stops a host for good or has an unknown key is refused."""
    path = tmp_path / "weather.toml"
    path.write_text("schema_version = 1\n" + text)
    with pytest.raises(UserError, match=named):
        Weather.load(path)


def test_a_host_that_does_not_exist_is_named():
    """A misspelt host would otherwise mean fair weather, silently."""
    with pytest.raises(UserError, match=r"'c' is not in the cluster \(a, b\)"):
        weather(Spell(host="c", from_s=0, to_s=1)).check_hosts(["a", "b"])

"""The documentation says what combines with what, and it is what the code says."""

from itertools import combinations

import pytest

from gnnplan.planner.composition import table
from gnnplan.planner.fidelity import EXACT
from gnnplan.planner.techniques.registry import ours
from gnnplan.profiles.errors import UserError
from tests.planner.composition.test_composed_pairs import REFUSED, REFUSED_APART


def test_the_page_is_current():
    """It was written after the last change of a technique."""
    assert table.main(["--check"]) == 0, "run python -m gnnplan.planner.composition.table"


def test_the_table_refuses_what_is_refused():
    """Its cells are those of the pairs that are tested, and there is a reason for each refused one."""
    found = [(one.name, other.name) for one, other in combinations(ours().values(), 2) if table.why_not(one, other)]
    assert sorted(found) == sorted([*REFUSED, *REFUSED_APART])
    text = table.tables()
    assert text.count("| no ") == 2 * len(found)
    assert all(f"- `{one}` with `{other}`: " in text for one, other in found)


def test_what_costs_nothing_is_called_exact():
    """The words of the table and the decisions' fidelity are of one mind."""
    for each in ours().values():
        assert (each.fidelity(each.Decision()) == EXACT) == ("exact" in each.costs), each.name


def test_a_page_that_is_old_is_found(tmp_path, capsys):
    """Checking changes nothing, and writing makes it current."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    assert table.main([str(page), "--check"]) == 1
    assert "not current; run" in capsys.readouterr().err
    assert "old" in page.read_text()
    assert table.main([str(page)]) == 0
    assert table.main([str(page), "--check"]) == 0
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("\nafter\n")
    assert "old" not in page.read_text()


def test_a_page_without_markers_is_refused():
    """There is no telling where its tables would go."""
    with pytest.raises(UserError, match="needs one line"):
        table.written("nothing")

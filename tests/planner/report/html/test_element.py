"""What is text is escaped, whatever stands in it."""

from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.report.html.element import Html, bar, element, table
from tests.planner.report.html.parsed import parsed

printed = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)


@given(printed, printed)
def test_text_comes_back_as_it_was(words, value):
    """As an element's text, and as an attribute's value."""
    (node,) = parsed(element("p", words, title=value)).all("p")
    assert node.text == words
    assert node.attributes["title"] == value
    assert node.children in ([words], [])


def test_markup_that_was_made_here_stands():
    """Elements go into elements."""
    page = parsed(element("div", element("b", "a < b"), " & ", Html("<i>c</i>")))
    assert page.text == "a < b & c"
    assert [node.name for node in page.all("div")[0].children if not isinstance(node, str)] == ["b", "i"]


def test_cells_have_their_columns_names():
    """Narrow screens show them beside the cells."""
    page = parsed(table(("a", "b<"), [("1", "2"), ("3", "4")], numbers=[1]))
    assert [cell.attributes["data-label"] for cell in page.all("td")] == ["a", "b<"] * 2
    assert [cell.text for cell in page.all("td", "n")] == ["2", "4"]


def test_bars_stay_within_their_strip():
    """What is over its capacity fills it."""
    for share, width in ((-1, 0), (0.25, 250), (1, 1000), (7, 1000)):
        (mark,) = parsed(bar(share, "compute", "words")).all("rect")
        assert float(mark.attributes["width"]) == width

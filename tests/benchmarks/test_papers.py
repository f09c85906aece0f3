"""Who wins in a table of systems, as the benchmark counts it."""

from benchmarks.papers import _totals, _winners


def row(name, printed_s, predicted_s, fits=True):
    return {"row": name, "printed_s": printed_s, "predicted_s": predicted_s, "fits": fits}


def test_a_cell_counts_where_somebody_ran():
    """The fastest printed against the fastest of those that are said to fit; a system alone is no contest."""
    rows = [
        row("GCN A one", 1.0, 20.0),
        row("GCN A two", 2.0, 30.0),
        row("GCN B one", 1.0, 9.0),
        row("GCN B two", 2.0, 8.0),
        row("GCN C one", 1.0, 9.0),
        row("GCN C two", None, 1.0, fits=False),
        row("GCN D one", 1.0, 9.0, fits=False),
        row("GCN D two", None, 1.0, fits=False),
        row("GCN E one", None, 1.0),
        row("GCN E two", None, 1.0),
        row("GCN F one", 1.0, 1.0),
    ]
    found = _winners(rows)
    assert found["winners_right"] == [2, 4]
    assert found["wrong_winners"] == ["GCN B one, said two", "GCN D one, said that none fits"]


def test_shares_are_over_all_tables():
    """Rows and cells count alike, whichever table they are in."""
    tables = [{"winners_right": [1, 2], "memory_right": [3, 4]}, {"memory_right": [6, 6]}]
    assert _totals(tables) == {"share_of_winners": 0.5, "share_of_memory": 0.9}

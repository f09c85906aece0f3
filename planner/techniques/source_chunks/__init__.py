"""Steps in which a chunk of the vertices pushes its rows, and targets fold them into moving aggregates (Emma)."""

"""Link prediction: which pairs of vertices are edges."""

"""Which comes first in a layer, the product with its weight or the aggregation. All orders give the same numbers."""

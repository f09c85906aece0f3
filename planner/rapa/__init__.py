"""Resource-aware partition (RAPA; CaPGNN, section 4.3): which halo vertices slow workers do without.

Pruned plans are approximate. What is pruned are (worker, vertex) pairs; the rest of a plan follows from them.
"""

"""The joint cache: which halo rows workers keep between epochs (CaPGNN's JACA, section 4.2)."""

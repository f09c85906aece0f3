"""A share of all halo rows, drawn anew in every epoch (BNS-GCN)."""

"""A share of all halo rows, drawn by turns from some draws that are made beforehand (BNS-GCN)."""

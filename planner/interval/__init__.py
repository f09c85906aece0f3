"""How far a measured epoch may lie from the predicted one."""

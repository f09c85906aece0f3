"""Moving aggregates on a device."""

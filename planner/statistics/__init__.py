"""What is known of a graph without having it: sizes, degrees, and how well it can be cut."""

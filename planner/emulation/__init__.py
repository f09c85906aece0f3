"""A cluster emulated on one Linux machine: real sockets, real slowness, nothing slept."""

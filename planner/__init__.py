"""What to do: graph, job, costs, strategies, simulator, reports and the command line."""

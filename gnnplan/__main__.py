"""`python -m gnnplan`: the command where no script of that name is on the path."""

import sys

from gnnplan.planner.cli import main

sys.exit(main())

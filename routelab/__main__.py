"""`python -m routelab` is `routelab`."""

import sys

from routelab.cli import main

sys.exit(main())

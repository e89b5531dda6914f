"""Measurements of Kohort and its peers on one machine.

`python -m benchmarks` runs every measurement; `RESULTS.md` keeps the results. Each measurement is a
module and a command. `README.md` describes them.
"""

import os

# A user's server does not compile its modules at each start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

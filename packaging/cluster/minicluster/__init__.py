"""A cluster in network namespaces of one Linux computer: a laptop, a login node, a controller and three nodes.

Real OpenSSH, PAM, munge and Slurm, for tests and demonstrations. Standard library only; README.md tells the whole.
"""

from __future__ import annotations

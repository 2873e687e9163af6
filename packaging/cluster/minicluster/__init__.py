"""A cluster in network namespaces of one Linux computer: a laptop, a login node, a controller and three nodes.

Real OpenSSH, PAM, munge and Slurm, for tests and demonstrations. Standard library only; see README.md.
"""

from __future__ import annotations

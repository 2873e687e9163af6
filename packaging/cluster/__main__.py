"""The program behind ``packaging/cluster/cluster``."""

from __future__ import annotations

import sys

from minicluster.problem import ClusterError


def main() -> int:
    """Run one command; the exit status."""
    if len(sys.argv) > 2 and sys.argv[1] == "on" and not sys.argv[2].startswith("-"):
        from minicluster.on import become  # the quick way: no other command's code is loaded

        try:
            become(sys.argv[2], sys.argv[3:])
        except ClusterError as problem:
            return problem.report()
    from minicluster import cli

    return cli.main()


sys.exit(main())

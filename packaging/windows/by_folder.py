"""Prints how many tests passed in each folder, from the XML file that pytest wrote: ``by_folder.py RESULTS.xml``."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree


def main(path: Path) -> None:
    """Prints a line for each folder."""
    passed, all_of = Counter[str](), Counter[str]()
    for case in ElementTree.parse(path).iter("testcase"):  # noqa: S314  # our own
        folder = "/".join(case.get("classname", "").split(".")[:3])
        folder = folder.rpartition("/test_")[0] if "/test_" in folder else folder
        all_of[folder] += 1
        passed[folder] += not [one for one in case if one.tag in ("failure", "error", "skipped")]
    for folder in sorted(all_of):
        print(f"{folder}: {passed[folder]} of {all_of[folder]} pass")
    print(f"Together: {passed.total()} of {all_of.total()} pass")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

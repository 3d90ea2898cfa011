"""The projects of the runs are not tests of this repository."""

from pathlib import Path

collect_ignore = [path.name for path in Path(__file__).parent.iterdir() if path.is_dir()]

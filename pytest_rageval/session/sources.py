"""The eval sets and human labels that markers name: found, and read once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets import Format, How, load, load_records
from pytest_rageval.evalsets.finding import find
from pytest_rageval.evalsets.human_labels import HumanLabels, load_labels
from pytest_rageval.model import EvalSet

__all__ = ["Sources"]


class Sources:
    """What tests are scored on, shared by those that name the same file.

    Args:
        formats: of eval sets, by name.
    """

    def __init__(self, formats: Mapping[str, Format]) -> None:
        self._formats = formats
        self._evalsets: dict[tuple[Path, str], EvalSet] = {}
        self._labels: dict[Path, HumanLabels] = {}

    def evalset(
        self, source: object, *, bases: Sequence[Path], words: Mapping[str, Any] | None = None
    ) -> EvalSet:
        """The eval set that a marker names: a path, an `EvalSet`, or records.

        Args:
            source: a relative path is looked for under each of the bases in turn.
            bases: folders.
            words: `format`, `sample`, `seed`, `stratify`, and the options of the format.

        Raises:
            InputError: there is no such file, or it cannot be used.
        """
        how = How.parse(words or {})
        if isinstance(source, EvalSet):
            if words:
                message = (
                    f"rageval_evalset has an EvalSet, which is as it is: {', '.join(words)} would do nothing."
                )
                raise InputError(message)
            return source
        if isinstance(source, str | Path):
            return self._read(find("eval set", source, bases=bases), how)
        records = load_records(source, how)
        if records is None:
            message = (
                f"rageval_evalset wants the path of an eval set, found {type(source).__name__}.\n"
                'Write rageval_evalset("evals/support.jsonl"); or give a list of dicts, a data frame, a Dataset.'
            )
            raise InputError(message)
        return records

    def labels(self, source: str | Path, *, bases: Sequence[Path]) -> HumanLabels:
        """The human labels of a file; a relative path is looked for under each of the bases in turn.

        Raises:
            InputError: there is no such file, or it cannot be used.
        """
        path = find(
            "labels file", source, bases=bases, there=lambda path: path.exists() and not path.is_dir()
        )
        if path not in self._labels:
            self._labels[path] = load_labels(path)
        return self._labels[path]

    def _read(self, path: Path, how: How) -> EvalSet:
        key = (path, repr(how))
        if key not in self._evalsets:
            self._evalsets[key] = load(path, how, formats=self._formats)
        return self._evalsets[key]

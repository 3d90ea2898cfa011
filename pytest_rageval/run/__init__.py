"""One test run: the resources that tests share, and the evaluation of each test from its markers to its results.

- `session`: the resources of a process, such as event loop, gateway and models; computes the scores of eval sets.
  `base`: the part that a merge of shards has too: the records of tests, baseline, definitions of scores, significance
  level.
- `test`: evaluates the scores of one test into its record. `judged`: judges a record, and collects its entry for the
  report.
- `registry`: the scores by name, and what plugins register.
- `inputs`: the components of tests, and the pipelines that tests share.
- `baseline_lookup`: a score in the baseline, and what was compared.
- `MarkedTest`: a test. `FinishedRun`: what the hook at the end of a run receives.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pytest_rageval.models.usage import Usage
    from pytest_rageval.options.settings import Settings


class Marker(Protocol):
    @property
    def args(self) -> tuple[Any, ...]:
        pass

    @property
    def kwargs(self) -> Mapping[str, object]:
        pass


@dataclass(frozen=True, slots=True)
class MarkedTest:
    """A test, as far as the session needs it: the session does not import pytest.

    `collected` returns the node ids of all tests of the run, `markers` the markers with a name, the closest first, and
    `siblings` the markers `rageval_threshold` by node id of the selected tests with the same function and eval set.
    `argument` runs the test from the folder of this run. `merge` is the `rageval merge` command, if the test was merged
    from shards. `repeated`: pytest-repeat runs the test several times, under different node ids.
    """

    nodeid: str
    path: Path
    root: Path
    collected: Callable[[], Collection[str]]
    markers: Callable[[str], Sequence[Marker]] = lambda _name: ()
    record_property: Callable[[str, float], None] = lambda _name, _value: None
    argument: str = ""
    merge: str = ""
    reference: Callable[[], object] = lambda: None
    repeated: bool = False
    siblings: Callable[[], Mapping[str, Sequence[Marker]]] = dict

    @property
    def bases(self) -> tuple[Path, Path]:
        """The folders in which relative paths of the test's markers are searched, in this order."""
        return self.root, self.path.parent


@dataclass(frozen=True)
class FinishedRun:
    """A run whose tests have ended, in the process that writes its reports.

    Attributes:
        settings: the resolved options.
        root: the root directory.
        build: function that returns the `document`.
        collected: the node ids of all collected tests.
        usage_of: the usage of models by each test that has results, by node id.
        usage: the usage of models by the whole run.
        claims: the tests, modules and folders that the run was to run in full, as node ids; "" is the root folder.
        left_out: why some tests did not run; empty if all ran, whatever their outcome.
        recorded: the recorded replies as lines of a cassette, by key.
        notes: lines of the summary. A hook may add some.
        remarks: lines of the summary that -q does not hide. A hook may add some.
        warnings: warnings in the summary. A hook may add some.
    """

    settings: "Settings"
    root: Path
    build: Callable[[], dict[str, object]]
    collected: Collection[str] = ()
    usage_of: "Mapping[str, Usage]" = field(default_factory=dict)
    usage: "Usage | None" = None
    claims: Sequence[str] = ()
    left_out: Sequence[str] = ()
    recorded: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @cached_property
    def document(self) -> dict[str, object]:
        """All results of the run, in the structure of the JSON report. It is built at the first use."""
        return self.build()

"""One test run: the resources that tests share, and the evaluation of each test from its markers to its results.

- `session`: computes the scores of eval sets, with event loop, gateway and models. `base`: the part that a merge of
  shards has too: the records of tests, baseline, definitions of scores, significance level.
- `test`: evaluates the scores of one test into its record. `judged`: judges a record, and collects its entry for the
  report.
- `registry`: the scores by name, and what plugins register.
- `inputs`: reads eval sets, and shares pipelines among tests.
- `baseline_lookup`: a score in the baseline, and what was compared.
- `FinishedRun`: what the hook at the end of a run receives.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_rageval.models.usage import Usage
    from pytest_rageval.options.settings import Settings


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

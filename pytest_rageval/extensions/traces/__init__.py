"""Traces: eval sets and replayed rankings from the exported traces of an application in production.

- `reading`: reads traces; each becomes at most one `RecordedQuestion`. `TraceRun` replays their rankings, and
  `rageval evalset from-traces` makes an eval set of them.
- `exports`: recognises which tool a record is from, and reads it; `opentelemetry` reads that tool's records.
- `records`: the common form of all tools: `Span`, `RecordedQuestion` (of a data set) and `Feedback`; and how their
  fields, such as question and answer, are read from recorded inputs and outputs.
"""

from typing import Final

from pytest_rageval.options.command import EVALSET, FORCE, Command, switch, value

# fmt: off
COMMANDS: Final = (
    Command("from-traces", "pytest_rageval.extensions.traces.reading:from_traces_command",
            "make an eval set from the questions in exported traces",
            "Reads spans of Phoenix (OpenInference), OTLP JSON (OpenInference or GenAI conventions), traces and data "
            "sets of Langfuse, runs and data sets of LangSmith, and data sets of Phoenix, as JSON, JSON lines or CSV; "
            "the kind is recognized. Each question is written once, with the retrieved passages, the answer that was "
            "given, and feedback as tags. Retrieved passages are not written as gold: people must decide which are. "
            "The command prints how much was left out or is missing.",
            (value("files", "FILE", "exports; a trace may be spread over several", nargs="+"),
             value("--output", "OUT", "file to write: the eval set, in the native format", required=True),
             FORCE,
             switch("--answers-are-references",
                    "use the given answers as reference answers (default: only the expected outputs of data sets)")),
            "Exit status: 0, also if traces are left out; 2 if something cannot be used.", group=EVALSET),
)
# fmt: on

"""Traces: eval sets and replayed rankings from the exported traces of an application in production.

- `reading`: reads traces; each becomes at most one `RecordedQuestion`.
- `exports`: recognises which tool a record is from; `opentelemetry`, `langfuse` and `langsmith` read the record.
- `records`: the common form of all tools: `Span`, `Item` (of a data set) and `Feedback`; and how their fields, such as
  question and answer, are read from recorded inputs and outputs.
- `trace_run`: replays recorded rankings. `command`: `rageval evalset from-traces`.
"""

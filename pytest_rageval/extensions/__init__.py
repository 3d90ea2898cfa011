"""Features that the core can do without. Everything about one of them is in its module or package here.

- `early_stop`, `canary`, `plan`: modes of a run. `plan` has stubs for results that are not computed.
- `shards`: a run that is split over several machines. `batches`: requests that a server answers within a day.
- `baseline_retrievers`: retrievers to compare with: recorded runs, and searches for which a model writes.
- `baseline_merge`: a merge driver of git for the baseline. `pin`: makes the baseline the anchor.
- `own_k`: calls retrievers without k, as they ship.
- `contracts`: what must not be retrieved, and where a gold passage must be.
- `robustness`: scores over questions with typos, without accents, in other words.
- `citation_support`: whether the passages that the answer cites support what it states.
- `leave_one_out`: on which passages of the prompt the answer depends.
- `churn`: rankings against those of the baseline.
- `stages`: which stage of a retriever loses a passage.
- `label_cost`: what eRAG's labels cost against answers.
- `application`: an application that retrieves and answers in one call.
- `remote_retrievers`: retrievers in other languages, at a URL or in a program; `rageval gate`.
- `arena_battles`: battles between systems.
- `calibration`: agreement of the judge with human labels. `label_cost`: what eRAG's labels cost.
- `application_calls`: the proxy for the application's own model calls.
- `providers`: the user's own client, and the local model. `stores`: stores of replies that machines share.
- `embeddings`: a sentence encoder, the store of its vectors, and what is computed from them.
- `executor`: runs a retriever in other processes.
- `bisect`: which commit lost a score. `monitor`: scores of each day in production, and an alarm.
- `history`: scores over many runs. `report_diff`: compares two reports. `otlp`: OpenTelemetry events.
- `view`: a report on a local page, where people label its answers.
- `evalset_tools`: checks eval sets, and makes them. `traces`: exports of tracing tools.
- `first_test`: `rageval init` and `rageval demo`.
"""

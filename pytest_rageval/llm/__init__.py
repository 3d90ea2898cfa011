"""Access to language models, with every reply kept and paid for once.

How a request becomes a reply: `gateway.Gateway.ask` → `cache.Cache` (the cache folder, then the cassette) →
for a missing reply a source (`sources.LiveSource`, `sources.ReplaySource` or `plan.PlanSource`) →
`sender.Sender` (retries, within `rate_limits` and `budget`) → `client.Client` (one HTTP call).

Data: `messages` (request, reply, request summary), `store` (SQLite), `cassette` (text file), `usage` (counts and
prices). Entry points: `gateway` for the package, `api.LLM` with `cached_functions` for the user's code,
`servers` for where models answer, `maintenance` for `rageval cache`.
"""

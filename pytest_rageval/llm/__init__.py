"""Access to language models, with every reply kept and paid for once.

How a request becomes a reply: `gateway.Gateway.ask` → `cache.Cache` (the cache folder, then the cassette) →
for a missing reply a source, as `gateway.LiveSource` → `sender.Sender` (retries, within `rate_limits` and `budget`)
→ `client.Client` (one HTTP call to one of the `servers`), or `own_client` (one call of the user's client). An
`exchange` is a request of another program, whose reply is the server's whole answer. `batches` has replies come in
files, within a day.

Data: `messages` (request, reply, request summary), `store` (SQLite), `cassette` (text file), `usage` (counts and
prices). For the user's code: `api.LLM`, `cached_functions`. `maintenance` is for `rageval cache`.
"""

"""Access to language models: every reply is stored and paid for once.

The path of a request:

1. `gateway`: `Gateway.get_reply` asks `cache.Cache`, which looks in the store (`stores`), then in the `cassette`.
2. For a missing reply, a source: `gateway.LiveSource` in a live run, others for replay, plan and batches.
3. `servers`: sends the request, with retries, within the rate limits and the `budget`.

Other modules:

- `messages`: requests, replies and request keys. `usage`: token counts and prices.
- `proxied_request`: a request of the user's application, whose complete response is stored.
- `batches`: requests that a server answers within a day.
- `maintenance`: for `rageval cache`.
- `api`: the fixture `rageval_llm`. `cached_functions`: its `cached()`.
"""

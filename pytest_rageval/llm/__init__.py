"""Access to language models: every reply is stored, so that it is paid for once.

The path of a request:

1. `gateway`: `Gateway.get_reply` calls `cache.Cache`, which looks for the reply in the store (`stores`), then in the
   `cassette`.
2. If the reply is missing, one of the `sources` obtains it, by the `GatewaySettings`: `LiveSource` in a live run,
   others for a replay, a plan and batches.
3. `servers` sends the request, with retries, within the rate limits and the `budget`.

Other modules:

- `messages`: requests, replies (and the answer in them, without reasoning) and request keys. `usage`: token counts and
  prices.
- `proxied_request`: a request of the user's application, whose complete response is stored.
- `batches`: requests that a server answers within a day, stored in the cache folder. `batch_api`: the server's API for
  them.
- `api`: the fixture `rageval_llm`. `cached_functions`: its method `cached()`.
"""

"""Model servers: how a request is sent, and how the answer is read.

- `server`: where models answer: a server at a URL, the embedded model, or the user's client.
- `sender`: sends requests with retries, within `rate_limits`. `client`: one attempt, one HTTP call.
- `completions`, `responses`: the two APIs.
- `connection`: the HTTP client and its credentials. `key_command`: for keys that expire.
- `user_client`: the user's own client, called instead of a server.
- `embedded_client`, `embedded_server`: the local model.
"""

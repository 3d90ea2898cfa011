"""Model servers: how a request is sent, and how the reply is parsed.

- `client`: `Server`, the base class of servers, and `Client`, which makes one HTTP call.
- `server`: a server at a URL, with a command for its key, and the embedded model.
- `sender`: sends requests with retries, within `rate_limits`.
- `completions`, `responses`: the two APIs.
- `connection`: the HTTP client and its credentials. `blocked_sockets`: errors of plugins that block sockets.
- `user_client`: the user's own client, called in place of a server.
- `embedded_client`, `embedded_server`: the local model.
"""

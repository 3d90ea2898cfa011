"""Models that are no server at a URL.

- `user_client`: the user's own client, called in place of a server.
- `embedded`, `embedded_server`: the local model.
"""

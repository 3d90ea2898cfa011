"""The gateway as a local HTTP server, for the model calls of the user's application.

The application's calls are cached, limited, counted and replayed like the calls of the package.

- `server`: the HTTP server on 127.0.0.1, in a separate thread.
- `application`: answers the requests; sends a stored reply also as the events of a stream.
- `command`: `rageval gateway`.
"""

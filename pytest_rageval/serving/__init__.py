"""The gateway as a server, for the model calls of the user's application.

Its calls are cached, limited, counted and replayed like those of the package.

- `server`: the HTTP server on 127.0.0.1, in a thread of its own.
- `application`: answers the requests.
- `streams`: writes a stored reply as the events of a stream.
"""

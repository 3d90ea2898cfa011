"""The gateway as a server: model calls of the user's application are kept, limited, counted and replayed.

`server` listens on 127.0.0.1 in a thread of its own, `application` answers requests, `streams` writes kept replies
as the events of a stream.
"""

"""The cache key of a request; `tests/property/test_request_key.py` shows what changes it."""

from pytest_rageval.models.messages import Request


def test_the_key_is_the_same_in_every_process_and_version() -> None:
    """The key is 64 hex digits that change only with the key's schema, so that recorded replies are found."""
    request = Request(
        base_url="http://here/v1",
        model="m",
        messages=({"role": "user", "content": "Which code?"},),
        parameters={"temperature": 0.5, "stop": ["\n"]},
    )
    assert request.key == "6c194c66c7378d717666c4bae7619f1d7f188103c67ef9f9a009aa8d25f61ad1"

"""Access to language models: every reply is stored, so that it is paid for once.

The path of a request:

1. `gateway`: `Gateway.get_reply` calls `cache.Cache`, which looks for the reply in the store (`stores`), then in the
   `cassette`.
2. If the reply is missing, one of the `sources` obtains it, by the `GatewaySettings`: `LiveSource` in a live run,
   others for a replay and a plan, and what an extension makes in its place.
3. `sender` sends the request, with retries, within `rate_limits` and the `budget`. `client` has `Server`, the base
   class of servers, and `Client`, which makes one HTTP call by one of the two `chat_apis`.

Other modules:

- `messages`: requests and their keys, replies (and the answer in them, without reasoning). `summaries`: what is stored
  of a request, to explain a missing reply. `usage`: token counts and prices.
- `prompts`: the templates of prompts, worked examples, and the fences around quoted texts. `prompt_rendering`: fills
  the templates. A prompt is part of the key of each request, so a changed template requests new replies.
- `generator`: answers from passages.
- `server`: a server at a URL, with a command for its key. `connection`: the HTTP client and its
  credentials.
- `proxied_request`: a request of the user's application, whose complete response is stored.
- `api`: the fixture `rageval_llm`.
"""

"""The embedded model's server: `python -m pytest_rageval.llm.servers.embedded_server MODEL THREADS CONTEXTS`.

It prints the URLs of OpenAI-compatible servers, one for each context, and ends when its standard input closes, which
happens however the parent process ends. A process of its own keeps 400 MB and the inference out of the test process;
each context after the first takes 150 MB more, as the file with the weights is mapped once.
"""

import sys
from pathlib import Path

import xllamacpp

__all__ = ["main"]

CONTEXT_TOKENS = 4096

TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
"""A chat template that adds nothing, for a base model."""


def main(model: str, threads: int, contexts: int) -> None:
    """Serve until standard input ends."""
    servers = [serve(model, threads) for _ in range(contexts)]
    for server in servers:
        print(server.listening_address, flush=True)  # noqa: T201 - the protocol of this process
    sys.stdin.read()


def serve(model: str, threads: int) -> xllamacpp.Server:
    """Start a server with a context of its own."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    # Otherwise every reply would name the model by its path.
    params.model_alias = {Path(model).stem}
    params.port = 0
    params.n_gpu_layers = 0
    params.n_ctx = CONTEXT_TOKENS
    # Parallel slots batch requests, and the batch size changes some answers; other contexts do not.
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    # Without the full cache a sliding-window model recomputes the shared prompt every time.
    params.swa_full = True
    params.cache_ram_mib = 0
    params.use_jinja = True
    params.chat_template = TEMPLATE
    params.verbosity = -1
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

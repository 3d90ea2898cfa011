"""The embedded model's server: `python -m pytest_rageval.extensions.providers.embedded_server MODEL THREADS CONTEXTS`.

It prints the URLs of OpenAI-compatible servers, one for each context. It ends when its standard input closes, which
happens whenever the parent process ends. A separate process keeps 400 MB and the inference out of the test process.
Each context after the first takes 150 MB more, since the file with the weights is mapped once.
"""

import sys
from pathlib import Path

import xllamacpp

CONTEXT_TOKENS = 4096

TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
"""A chat template that only joins the contents of the messages, for a base model."""


def main(model: str, threads: int, contexts: int) -> None:
    servers = [serve(model, threads) for _ in range(contexts)]
    for server in servers:
        print(server.listening_address, flush=True)  # noqa: T201 - read by the parent process
    sys.stdin.read()


def serve(model: str, threads: int) -> xllamacpp.Server:
    params = xllamacpp.CommonParams()
    params.model.path = model
    # Without an alias every reply would contain the path of the model.
    params.model_alias = {Path(model).stem}
    params.port = 0
    params.n_gpu_layers = 0
    params.n_ctx = CONTEXT_TOKENS
    # Parallel slots batch requests, and the batch size changes some answers. Separate contexts do not.
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    # Without the full cache a sliding-window model recomputes the shared part of the prompt for every request.
    params.swa_full = True
    params.cache_ram_mib = 0
    params.use_jinja = True
    params.chat_template = TEMPLATE
    params.verbosity = -1
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

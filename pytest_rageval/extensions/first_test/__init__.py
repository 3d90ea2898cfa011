"""A first test: `init` writes one for a project, `demo` runs the example.

`workflow` is the file for GitHub. `checks` imports what `--retriever` names, and says whether pytest collects the test.
"""

from typing import Final

from pytest_rageval.options.command import Command, value

# fmt: off
COMMANDS: Final = (
    Command("init", "pytest_rageval.extensions.first_test.init:init_command",
            "write a first test of a retriever, which passes",
            "Writes conftest.py, test_retriever.py, an eval set, pytest.ini, .gitattributes and a workflow for GitHub "
            "into the current folder. Without arguments, the retriever is a keyword search over three passages. With "
            "--retriever, yours is imported, but not called. A file that exists is not changed: the lines to add to "
            "it are printed.",
            (value("--retriever", "MODULE:NAME",
                   "your retriever, such as support_bot.search:search, my_app:store.as_retriever() or my_app:build()",
                   str),
             value("--evalset", "FILE",
                   "your eval set, in any known format; requires --retriever, or a fixture in conftest.py"),
             value("--framework", "NAME",
                   "write the example in this framework: langchain, llamaindex or haystack; not with your retriever",
                   str, choices=("langchain", "llamaindex", "haystack"))),
            "Exit status: 0; 2 if something cannot be used. Nothing is overwritten.", place=1),
    Command("demo", "pytest_rageval.extensions.first_test.demo:demo_command",
            "show a retriever that gets worse, and the test that fails",
            "Copies an example project into a temporary folder and runs its tests twice: as it is, and with a worse "
            "retriever. Needs no model and no key.",
            (value("--keep", "DIR",
                   "copy the example into this folder and keep it; new or empty, and outside of a project"),),
            "Exit status: 0; 1 if the tests did not end as expected; 2 if something cannot be used.", place=2),
)
# fmt: on

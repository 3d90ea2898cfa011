"""What `rageval init` says of a test that pytest does not collect."""

import pytest

from pytest_rageval.extensions.first_test.checks import not_collected

KEY = (
    "openai.OpenAIError: Missing credentials. Please pass an `api_key`, or set the `OPENAI_API_KEY` variable."
)
LONG = f"ValueError: {'x' * 300}"


@pytest.mark.parametrize(
    ("output", "seen"),
    [
        (
            f"ImportError while loading conftest\nbot.py:2: in <module>\n    raise E(\nE   {KEY}\n",
            KEY.rstrip("."),
        ),
        (f"E   {LONG}\n", LONG),
        ("E   app.Refused: no\nE   index: none\n\nbot.py:1: in <module>\n", "app.Refused: no index: none"),
        (
            "E   KeyError: 'a'\n\nThe above exception …\nE   RuntimeError: last\n1 error in 0.1s\n",
            "RuntimeError: last",
        ),
        (
            'E     File "bot.py", line 1\nE       def\nE          ^\nE   SyntaxError: bad\n',
            "SyntaxError: bad",
        ),
        ("E   KeyboardInterrupt\n", "KeyboardInterrupt"),
        (
            "ERROR: usage: pytest [options]\npytest: error: unrecognized arguments: --none\n  rootdir: /x\n",
            "unrecognized arguments: --none",
        ),
        ("ERROR: Missing required plugins: none\n\n", "Missing required plugins: none"),
        ("\n==== no tests collected in 0.01s ====\n", "no tests collected in 0.01s"),
        ("", "it printed nothing"),
    ],
)
def test_the_error_is_whole_and_in_one_line(output: str, seen: str) -> None:
    first, _, _ = not_collected("test_a.py", output).partition("\n")
    assert first == f"pytest does not collect test_a.py: {seen}."


@pytest.mark.parametrize(
    ("output", "advice", "other"),
    [
        (f"E   {KEY}\n", "export OPENAI_API_KEY=", "Add the lines"),
        (f"E   {KEY}\n", "rageval_gateway = true", "Add the lines"),
        (
            "E   ValueError: Did not find cohere_api_key: set COHERE_API_KEY\n",
            "export COHERE_API_KEY=",
            "gateway",
        ),
        ("E   app.NoKey: the API key is missing\n", "Set the key that it names", "gateway"),
        (
            "E   ModuleNotFoundError: No module named 'app'\n",
            "Add the lines that are named above, if any",
            "testpaths",
        ),
        ("E   ZeroDivisionError: division by zero\n", "shows its traceback", "Add the lines"),
        ("no tests collected\n", "Add the lines that are named above, if any", "traceback"),
    ],
)
def test_the_advice_fits_the_error(output: str, advice: str, other: str) -> None:
    text = not_collected("test_a.py", output)
    assert advice in text
    assert other not in text

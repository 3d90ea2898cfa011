"""Prices: the cost of a request, and the user's own price file."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.secret import public_url
from pytest_rageval.models.prices import SHIPPED_FILE, Price, Prices
from pytest_rageval.options.settings import Tier

OPENAI = "https://api.openai.com/v1"
PROXY = "http://proxy.example:4000/v1"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        file = tmp_path / "prices.toml"
        file.write_text(text, encoding="utf-8")
        return file

    return written


def test_a_request_costs_its_tokens() -> None:
    assert Price(2.5, 10).cost(1_000_000, 0) == 2.5
    assert Price(2.5, 10).cost(1000, 100) == pytest.approx(0.0035)
    assert Price(2.5, 10).cost(0, 0) == 0


def test_a_vendors_model_has_its_price() -> None:
    prices = Prices.load()
    halves: dict[Tier, Price] = {"batch": Price(1.25, 5, 16384)}
    assert prices.get(OPENAI, "gpt-4o") == Price(2.5, 10, 16384, halves)
    assert prices.get(OPENAI, "gpt-3.5-turbo") == Price(0.5, 1.5, 4096)
    assert prices.get("https://api.anthropic.com/v1", "claude-haiku-4-5") == Price(1, 5, 64000)


@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_a_slash_at_the_end_does_not_matter(slashes: str, write: Callable[[str], Path]) -> None:
    assert Prices.load().get(OPENAI + slashes, "gpt-4o") is not None
    prices = Prices.load(write(f'["{PROXY}{slashes}".m]\ninput = 1\noutput = 2'))
    assert prices.get(PROXY, "m") == prices.get(f"{PROXY}/", "m") == Price(1, 2)


@pytest.mark.parametrize(
    ("base_url", "model"),
    [
        (PROXY, "gpt-4o"),
        (OPENAI, "gpt-4o-mini-2024"),
        (OPENAI, "gpt"),
        (OPENAI, "GPT-4o"),
        (OPENAI, ""),
        ("", "gpt-4o"),
        ("https://api.openai.com", "gpt-4o"),
    ],
)
def test_what_is_not_known_is_not_guessed(base_url: str, model: str) -> None:
    assert Prices.load().get(base_url, model) is None


@pytest.mark.parametrize("base_url", ["embedded", "embedded:gemma-3-270m"])
def test_the_embedded_model_costs_nothing(base_url: str, write: Callable[[str], Path]) -> None:
    """The embedded model is free, even if the price file has a model with its name."""
    prices = Prices.load(write("[m]\ninput = 1\noutput = 2"))
    assert prices.get(base_url, "m") == Price(0, 0)
    assert Price(0, 0).cost(10**6, 10**6) == 0


def test_a_model_of_the_users_has_its_price_anywhere(write: Callable[[str], Path]) -> None:
    """A price by model name applies at every server and overrides the shipped price; other shipped prices stay."""
    prices = Prices.load(write('["gpt-4o"]\ninput = 1\noutput = 2.5\nmax_output = 100'))
    assert prices.get(OPENAI, "gpt-4o") == prices.get(PROXY, "gpt-4o") == Price(1, 2.5, 100)
    assert prices.get(OPENAI, "gpt-4o-mini") == Prices.load().get(OPENAI, "gpt-4o-mini")


def test_a_base_url_of_the_users_is_more_exact_than_a_name(write: Callable[[str], Path]) -> None:
    """A price for a base URL applies only to that server, and overrides a price by model name alone."""
    text = f'[m]\ninput = 1\noutput = 1\n["{PROXY}".m]\ninput = 2\noutput = 2\n["{PROXY}".n]\ninput = 3\noutput = 3'
    prices = Prices.load(write(text))
    assert prices.get(PROXY, "m") == Price(2, 2)
    assert prices.get(OPENAI, "m") == Price(1, 1)
    assert prices.get(OPENAI, "n") is None


def test_a_query_does_not_change_the_price(write: Callable[[str], Path]) -> None:
    """A base URL matches with and without its query in the price file; a request has only a hash of its query."""
    for query in ("", "?api-version=2024-10-21"):
        prices = Prices.load(write(f'["{PROXY}{query}".m]\ninput = 1\noutput = 2'))
        assert prices.get(public_url(f"{PROXY}?api-version=2024-10-21"), "m") == Price(1, 2)


def test_a_model_may_be_free(write: Callable[[str], Path]) -> None:
    """A price of zero is valid, and an empty file sets no price."""
    assert Prices.load(write("[m]\ninput = 0\noutput = 0")).get(PROXY, "m") == Price(0, 0)
    assert Prices.load(write("")).get(PROXY, "m") is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("input = -1\noutput = 1", "input = -1."),
        ("input = 1\noutput = -0.5", "output = -0.5."),
        ("input = true\noutput = 1", "input = True."),
        ("input = nan\noutput = 1", "input = nan."),
        ("input = 1\noutput = inf", "output = inf."),
        ('input = "1"\noutput = 1', "input = '1'."),
        ("output = 1", "no 'input'."),
        ("input = 1", "no 'output'."),
        ("", "no 'input'."),
        ("input = 1\noutput = 1\ncached = 1", "unknown key 'cached'."),
        ("input = 1\noutput = 1\nflex_input = 1", "no 'flex_output'."),
        ("input = 1\noutput = 1\nbatch_input = -1\nbatch_output = 1", "batch_input = -1."),
        ("input = 1\noutput = 1\nmax_output = 0", "max_output = 0."),
        ("input = 1\noutput = 1\nmax_output = 1.5", "max_output = 1.5."),
        ("input = 1\noutput = 1\nmax_output = true", "max_output = True."),
    ],
)
@pytest.mark.parametrize("table", ["m", f'"{PROXY}".m'])
def test_an_invalid_price_is_an_error_that_names_it(table, line, problem, write):
    file = write(f"[{table}]\n{line}\n")
    with pytest.raises(InputError) as caught:
        Prices.load(file)
    message = str(caught.value)
    assert str(file) in message
    assert "model 'm'" in message
    assert (PROXY in message) == (PROXY in table)
    assert problem in message
    assert "USD per million tokens (numbers, at least 0)" in message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("m = 2", "model 'm' is 2, expected a table"),
        (f'"{PROXY}" = 2', r'expected a table of models by name\.\nWrite \["http'),
        (f'["{PROXY}"]\ninput = 1\noutput = 1', r"model 'input' at http.* is 1, expected a table"),
        # TOML reads gpt-4.1 as a table within a table.
        ("[gpt-4.1]\ninput = 1\noutput = 1", r"model 'gpt-4' has the unknown key '1'.*needs quotes"),
    ],
)
def test_what_is_no_table_of_prices_is_named(write, content, message):
    with pytest.raises(InputError, match=message):
        Prices.load(write(content))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for file in (tmp_path / "missing.toml", tmp_path):
        with pytest.raises(InputError, match=r"--rageval prices=FILE names .*cannot be read: ") as caught:
            Prices.load(file)
        assert str(file) in str(caught.value)


@pytest.mark.parametrize("content", [b"[m", b"\xff\xfe", b"a = 1\na = 2"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "prices.toml"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"--rageval prices=FILE names .*not TOML"):
        Prices.load(file)


def test_the_shipped_table_is_sound() -> None:
    prices = Prices.load(SHIPPED_FILE)
    shipped = tomllib.loads(SHIPPED_FILE.read_text(encoding="utf-8"))
    assert all(base_url.startswith("https://") for base_url in shipped)
    assert sum(len(models) for models in shipped.values()) >= 60
    for base_url, models in shipped.items():
        for model in models:
            price = prices.get(base_url, model)
            assert 0 < price.input <= price.output <= 100
            assert price.max_output is None or 4096 <= price.max_output <= 1_000_000
            assert all(2 * lower.input == price.input for lower in price.tiers.values())
            assert all(2 * lower.output == price.output for lower in price.tiers.values())


@pytest.mark.parametrize(
    "twins",
    [
        ("https://api.deepseek.com", "https://api.deepseek.com/v1"),
        ("https://api.together.ai/v1", "https://api.together.xyz/v1"),
    ],
)
def test_two_addresses_of_a_vendor_have_the_same_prices(twins: tuple[str, str]) -> None:
    shipped = tomllib.loads(SHIPPED_FILE.read_text(encoding="utf-8"))
    assert shipped[twins[0]] == shipped[twins[1]]

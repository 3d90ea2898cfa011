"""`--rageval max_calls=N` and `--rageval-max-cost`: a run stops before the limit, caches replies, and does not pass."""

import pytest

pytestmark = pytest.mark.slow

GATE = '@pytest.mark.rageval_threshold("answer.em@1", min=0.9)\ndef test_gate(): pass\n'

PRICES = '["m1"]\ninput = 1000.0\noutput = 1000.0\nmax_output = 100\n'


def test_a_run_stops_before_the_call_that_would_pass_the_limit(project, llm):
    project.use(llm)
    project.evalset(20)
    project.test(GATE + "def test_free(rageval): assert rageval.score('recall@1') == 1\n")
    project.run(
        "--rageval=max_calls=7",
        errors=1,
        passed=1,
        shows=[
            "--rageval max_calls=7 is reached: 7 calls were made.",
            "What was paid is in the cache: a run with a higher limit goes on from there.",
            "It affects 13 examples: *",
        ],
    )
    assert len(llm.requests) == 7
    project.run("--rageval=max_calls=13", passed=2)
    assert len(llm.requests) == 20


@pytest.mark.parametrize("processes", [0, 2])
def test_the_cost_stays_below_the_limit(project, llm, processes):
    """The limit holds for all workers together: the maximum cost of a call is reserved before the call is sent."""
    project.use(llm)
    project.evalset(30)
    (project.path / "prices.toml").write_text(PRICES, encoding="utf-8")
    project.test("".join(GATE.replace("test_gate", f"test_{n}").replace("@1", f"@{n}") for n in range(1, 5)))
    run = project.run_process if processes else project.run
    result = run(
        "-n",
        str(processes),
        "--rageval-max-cost=2",
        "--rageval=prices=prices.toml",
        "--rageval=max_tokens=10",
    )
    assert result.parseoutcomes()["errors"] >= 1
    result.stdout.fnmatch_lines(
        ["--rageval-max-cost=2 is reached: * USD are spent, and the next call may cost *"]
    )
    assert (
        len([line for line in result.outlines if line.startswith("It affects ")])
        == (result.parseoutcomes()["errors"])
    )
    result.stdout.no_fnmatch_line("*ended with other messages*")
    spent = sum((len(body["messages"][0]["content"]) // 4 + 1) / 1000 for body in llm.paid)
    assert 1.5 < spent <= 2


def test_a_broken_file_of_prices_is_an_error_that_names_it(project, llm):
    project.use(llm)
    project.test(GATE)
    (project.path / "prices.toml").write_text('["m1"]\ninput = "cheap"\n', encoding="utf-8")
    result = project.run(
        "--rageval=prices=prices.toml", shows="*prices.toml: model 'm1' has input = 'cheap'."
    )
    # No line of this package's source is shown.
    result.stdout.no_fnmatch_line("*raise InputError*")
    assert not llm.requests

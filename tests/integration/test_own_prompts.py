"""The user's own prompts, from a file or a fixture."""

import pytest

GATE = "@pytest.mark.rageval_threshold('answer.correct@1', min=1, comparator='judge and em')\ndef test_gate(): pass\n"
FRAGE = "answer = 'Frage: {question} {passages}'\n"
FIXTURE = (
    "@pytest.fixture(scope='session')\n"
    "def rageval_prompts(rageval_prompts):\n"
    "    return {**rageval_prompts, 'answer': 'Aus dem Fixture: {question} {passages}'}\n"
)


@pytest.mark.slow
def test_a_file_replaces_prompts(project, llm):
    project.use(llm)
    project.ini(rageval_model="m1", rageval_prompts="prompts.toml")
    (project.path / "prompts.toml").write_text(FRAGE, encoding="utf-8")
    project.test(GATE)
    project.run(passed=1)
    answer_prompts = [
        prompt for prompt in llm.prompts if prompt.startswith("Frage: What is the code of item-")
    ]
    judge_prompts = [prompt for prompt in llm.prompts if prompt.startswith("Decide whether an answer")]
    assert (len(answer_prompts), len(judge_prompts)) == (4, 4)
    # A changed prompt sends new requests; the requests of an unchanged prompt are cached.
    (project.path / "prompts.toml").write_text(FRAGE.replace("Frage", "Bitte"), encoding="utf-8")
    project.run(passed=1)
    assert len(llm.requests) == 12
    project.run("--rageval-replay", passed=1)


def test_a_fixture_replaces_prompts_and_sees_those_of_the_file(project, llm):
    project.use(llm)
    (project.path / "prompts.toml").write_text(
        FRAGE + "same_answer = 'Answer to check: {answer}\\n{question}\\n{references}'\n", encoding="utf-8"
    )
    project.add(FIXTURE)
    project.test(GATE)
    project.run("--rageval=prompts=prompts.toml")
    beginnings = {prompt.partition(": ")[0] for prompt in llm.prompts}
    assert beginnings == {"Aus dem Fixture", "Answer to check"}


@pytest.mark.slow
def test_another_wording_makes_a_baseline_stale(project, llm):
    project.use(llm)
    project.gate("answer.em@1 max_drop=0")
    project.run("--rageval-update-baseline", passed=1)
    (project.path / "prompts.toml").write_text(FRAGE, encoding="utf-8")
    project.run(
        "--rageval=prompts=prompts.toml",
        errors=1,
        shows="  generator prompt to generate: * in the baseline, * now",
    )


OWN_PARTS = (
    "@pytest.fixture(scope='session')\ndef rageval_generator():\n    return lambda question, passages: 'c1x'\n"
    "class Judge:\n    def compare(self, question, references, prediction):\n        return True\n"
    "@pytest.fixture(scope='session')\ndef rageval_judge():\n    return Judge()\n"
)


@pytest.mark.parametrize("own", ["", OWN_PARTS], ids=["our parts", "own parts"])
@pytest.mark.parametrize("fixture", [True, False])
def test_a_prompt_that_cannot_be_used_is_an_error(project, llm, fixture, own):
    """An invalid prompt is an error with its place, without a traceback and before any request."""
    project.use(llm)
    invalid_fixture = FIXTURE.replace(" {passages}", "") if fixture else ""
    project.add(f"{own}{invalid_fixture}")
    (project.path / "prompts.toml").write_text(
        FRAGE if fixture else FRAGE.replace(" {passages}", ""), encoding="utf-8"
    )
    project.test(GATE)
    result = project.run("--rageval=prompts=prompts.toml", errors=1)
    where = "rageval_prompts" if fixture else "*prompts.toml"
    result.stdout.fnmatch_lines(
        [f"{where}: the prompt answer lacks {{passages}}.", "Its placeholders are: {question}, {passages}."]
    )
    assert "Traceback" not in result.stdout.str()
    assert not llm.requests


def test_prompts_are_not_read_where_no_test_is_of_ours(project):
    """If no test uses the plugin, the prompts file is not read, and a missing file is not an error."""
    project.pytester.makepyfile(test_plain="def test_plain(): pass\n")
    project.run("--rageval=prompts=nowhere.toml", passed=1)

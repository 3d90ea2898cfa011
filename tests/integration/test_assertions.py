"""Tests that assert on scores with the fixture `rageval`."""


def test_a_failed_assertion_on_a_score_names_the_lost_questions(project):
    project.lose(3)
    project.test("def test_own_words(rageval):\n    assert rageval.score('recall@2') >= 0.9\n")
    project.run(
        failed=1,
        shows=[
            "*assert rageval.score('recall@2') >= 0.9",
            "E*recall@2 >= 0.9",
            "E*recall@2 is 0.750: 1 of 4 questions is below 0.9 (-v shows all): q3",
        ],
    )
    project.run("-vv", shows=["E*recall@2 = 0.750 (95% interval 0.301 to 0.954, n = 4)", "E*q3  0 *"])


def test_a_slice_of_a_score_is_a_score(project):
    project.lose(3)
    project.test(
        "def test_slices(rageval):\n"
        "    score = rageval.score('recall@2')\n"
        "    assert score.where(topic='even') == 1\n"
        "    assert score.where(topic='odd') > 0.5\n"
    )
    project.run(shows="E*recall@2 where topic='odd' is 0.500: *")


def test_retrieved_documents_are_asserted_on_by_id(project):
    project.test(
        "def test_found(rageval):\n    assert 'doc-7' in rageval.retrieve('item-7?', k=3)\n"
        "def test_lost(rageval):\n    assert 'doc-8' in rageval.retrieve('item-7?', k=2)\n"
    )
    project.run(
        passed=1,
        failed=1,
        shows=["E*'doc-8' in the documents", "E*1. doc-7: Of all things, item-7 has the code c7x."],
    )


def test_retrieve_needs_no_eval_set(project):
    project.pytester.makepyfile("def test_one(rageval):\n    assert len(rageval.retrieve('item-1?', 3)) == 3")
    project.run(passed=1)


def test_answer_gives_what_the_generator_says(project, llm):
    project.use(llm)
    project.test(
        "def test_it(rageval):\n    assert rageval.answer('What is the code of item-2?', k=1) == 'c2x'"
    )
    project.run(passed=1)


def test_score_takes_the_words_of_the_marker(project):
    project.lose(3)
    project.test(
        "def test_bound(rageval):\n    rageval.score('recall@2', min=0.9)\n"
        "def test_where(rageval):\n    assert rageval.score('recall@2', where={'topic': 'even'}) == 1\n"
        "def test_word(rageval):\n    rageval.score('recall@2', minimum=0.9)\n"
    )
    project.run(
        passed=1,
        failed=2,
        shows=[
            "recall@2: 0.750 is below the minimum 0.9: *",
            "*rageval.score has no keyword 'minimum'. Did you mean min? Allowed: min, max, max_drop, *",
        ],
    )


def test_scores_work_inside_async_tests(project):
    project.arguments.remove("-pno:asyncio")
    project.ini(asyncio_mode="auto", asyncio_default_fixture_loop_scope="function")
    project.test("async def test_it(rageval):\n    assert rageval.score('recall@2') == 1\n")
    project.run(passed=1)

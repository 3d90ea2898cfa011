"""Each row of the page of faults is shown by a test."""

import re

import pytest

from pytest_rageval.options import all_options
from tests.docs.pages import ROOT

# By the first words of a row: the tests that show what it says, by file and function below `tests/`.
SHOWN_BY = {
    "`fail`": [
        "integration/test_thresholds.py::test_a_score_below_its_minimum_fails_the_build_and_names_the_lost_questions"
    ],
    "`error`": ["integration/test_replies.py::test_too_many_unscored_are_an_error"],
    "`inconclusive`": [
        "integration/test_gate.py::test_a_drop_that_may_be_noise_passes_with_a_warning",
        "integration/test_gate.py::test_a_drop_that_is_not_significant_can_fail",
    ],
    "`warning:`": ["attacks/test_silent_green.py::test_what_a_server_failed_at_is_pointed_out"],
    "a note below": ["unit/reports/test_ranking_anomalies.py::test_each_oddity_is_counted"],
    "`unscored`": ["integration/test_replies.py::test_too_many_unscored_are_an_error"],
    "429 or 503": ["integration/test_faults.py::test_a_bad_day_of_the_server_changes_no_score"],
    "408, 409": [
        "integration/test_replies.py::test_a_request_that_keeps_failing_is_unscored_with_its_reason"
    ],
    "No success": ["attacks/test_hangs.py::test_one_patience_for_a_server_and_not_one_for_each_question"],
    "No server": [
        "integration/test_bad_input.py::test_no_server_is_an_error_that_says_so_once",
        "unit/models/test_key_command.py::test_an_expired_key_is_asked_for_again",
    ],
    "A reply that is no": [
        "attacks/test_malformed_replies.py::test_a_malformed_reply_is_one_unscored_example"
    ],
    "An empty reply": [
        "attacks/test_money.py::test_an_empty_reply_is_requested_once_per_run",
        "unit/models/test_sender.py::test_a_prompt_that_is_too_long_has_its_own_error",
    ],
    "The judge's verdict": [
        "attacks/test_malformed_replies.py::test_a_malformed_verdict_is_one_unscored_example"
    ],
    "The judge gives": ["attacks/test_silent_green.py::test_a_judge_with_constant_verdicts_is_reported"],
    "The server refuses": ["attacks/test_refused_parameters.py::test_what_is_refused_is_left_out"],
    "The model behind": [
        "integration/test_canary.py::test_a_changed_generator_is_an_error_and_no_worse_retriever",
        "integration/test_canary.py::test_another_served_model_is_named",
    ],
    "The budget": ["attacks/test_money.py::test_a_server_that_reports_no_usage_does_not_open_the_purse"],
    "Ctrl-C": [
        "integration/test_faults.py::test_a_killed_run_continues_where_it_stopped",
        "integration/test_faults.py::test_a_worker_that_dies_delays_the_others_for_seconds_only",
        "attacks/test_chaos.py::test_stopped",
    ],
    "The cache folder": [
        "integration/test_interruptions.py::test_no_request_is_sent_if_its_reply_cannot_be_cached",
        "integration/test_interruptions.py::test_a_complete_cassette_needs_no_cache",
        "unit/models/test_gateway.py::test_after_a_failed_write_no_request_is_sent",
    ],
    "A cache entry": [
        "attacks/test_stores.py::test_a_damaged_row_loses_only_its_own_reply",
        "unit/models/stores/test_sqlite_replies.py::test_a_planted_pickle_is_refused_and_not_run",
    ],
    "A cassette": [
        "integration/test_replies.py::test_a_cassette_that_is_missing_or_broken_is_an_error",
        "attacks/test_stores.py::test_a_cassette_of_a_later_version_is_refused",
    ],
    "Redis goes away": [
        "integration/test_shared_cache.py::test_a_server_that_stops_loses_no_reply",
        "integration/test_shared_cache.py::test_a_limit_is_not_passed_while_the_count_is_away",
    ],
    "Redis refuses": [
        "integration/test_shared_cache.py::test_a_server_that_was_never_there_is_an_error",
        "integration/test_shared_cache.py::test_a_server_that_evicts_is_refused",
    ],
    "A batch": [
        "integration/test_batches.py::test_a_run_killed_anywhere_can_be_continued",
        "unit/extensions/batches/test_batches.py::test_a_request_that_failed_is_asked_live_or_left_unscored",
    ],
    "The retriever raises": [
        "attacks/test_silent_green.py::test_a_minimum_counts_what_the_retriever_failed_at",
        "attacks/test_silent_green.py::test_a_drop_counts_what_the_retriever_failed_at",
        "unit/scores/test_many_questions.py::test_a_broken_retriever_is_given_up_at_the_first_questions",
    ],
    "The generator or judge": [
        "attacks/test_user_code.py::test_a_generator_that_raises_once_leaves_one_question_unscored",
        "attacks/test_user_code.py::test_a_mistake_after_a_reply_leads_to_few_further_requests",
    ],
    "A process of an executor": [
        "unit/extensions/executor/test_executor.py::test_a_killed_process_is_a_clear_error",
        "unit/extensions/executor/test_executor.py::test_what_cannot_be_pickled_is_named",
    ],
    "Code blocks": [
        "attacks/test_hangs.py::test_a_retriever_that_blocks_is_ended_by_a_signal",
        "attacks/test_hangs.py::test_a_forked_child_gets_an_error",
    ],
    "An eval set": [
        "integration/test_evalset_formats.py::test_an_eval_set_in_python_is_checked_as_a_file_is",
        "attacks/test_silent_green.py::test_a_mistyped_mark_is_an_error",
    ],
    "Ids of": ["integration/test_gate.py::test_a_score_of_0_on_every_question_is_red"],
    "The application": [
        "integration/test_gateway.py::test_what_the_application_says_without_its_model_is_not_scored"
    ],
    "A test catches": ["attacks/test_green_builds.py::test_it_is_red_or_visible"],
    "The baseline is missing": [
        "attacks/test_baseline_files.py::test_a_baseline_that_was_named_has_to_be_there",
        "attacks/test_baseline_files.py::test_the_first_run_on_a_build_server_needs_a_baseline",
        "attacks/test_baseline_files.py::test_a_test_missing_in_the_baseline_is_an_error",
    ],
    "A test of the baseline": [
        "attacks/test_missing_gates.py::test_a_gated_test_that_was_not_compared_fails_the_run",
        "attacks/test_missing_gates.py::test_a_part_of_the_tests_is_one_line",
        "attacks/test_missing_gates.py::test_a_test_that_may_be_missing_is_shown",
    ],
    "A pull request": [
        "integration/test_baseline_change.py::test_a_baseline_that_the_branch_changed_is_reported",
        "integration/test_baseline_change.py::test_what_cannot_be_compared_is_said_on_a_build_server",
    ],
    "More than": [
        "attacks/test_silent_green.py::test_removed_questions_are_counted_and_more_than_a_tenth_is_an_error"
    ],
    "The threshold could": [
        "attacks/test_silent_green.py::test_an_eval_set_that_is_cut_to_a_few_lost_questions_fails"
    ],
    "Order, texts or": [
        "integration/test_silent_changes.py::test_a_change_that_no_score_shows_is_a_warning",
        "integration/test_own_k.py::test_another_number_of_its_own_is_a_warning",
    ],
    "Questions that had": ["attacks/test_silent_green.py::test_lost_questions_without_a_score_are_no_pass"],
    "The baseline is edited": [
        "attacks/test_baseline_files.py::test_a_score_that_is_not_on_its_scale_is_refused",
        "integration/test_gate.py::test_all_but_the_retriever_must_be_the_same",
    ],
    "An update": [
        "attacks/test_baseline_files.py::test_an_update_always_says_what_it_lowers",
        "attacks/test_baseline_files.py::test_an_update_never_lowers_a_score_that_is_out_of_its_bounds",
        "attacks/test_baseline_files.py::test_an_update_is_refused_on_a_build_server",
    ],
    "Many updates": ["integration/test_anchor.py::test_twenty_updates_that_lose_a_point_each_are_caught"],
    "A shard": [
        "unit/extensions/shards/test_merged_run.py::test_a_missing_shard_is_an_error",
        "unit/extensions/shards/test_merged_run.py::test_other_settings_in_one_shard_are_an_error",
    ],
    "A report cannot be written": ["integration/test_extension.py::test_another_package_writes_reports"],
    "A report cannot be sent": [
        "integration/test_extension.py::test_another_package_sends_reports",
        "unit/extensions/test_otlp.py::test_one_request_and_all_together_have_a_limit",
    ],
    "A server, a traceback": [
        "attacks/test_secrets.py::test_no_style_of_traceback_shows_a_secret",
        "unit/models/test_connection.py::test_a_redirect_is_not_followed",
    ],
    "A passage": [
        "unit/reports/html/test_page.py::test_a_text_stays_text_in_every_field",
        "attacks/test_terminal.py::test_a_run_prints_no_control_sequences_or_ci_commands",
    ],
}
PAGE = (ROOT / "docs" / "reference" / "faults.md").read_text(encoding="utf-8")
ROWS = [
    row for row in re.findall(r"(?m)^\| (.+)", PAGE) if not row.startswith(("what goes wrong", "you see"))
]


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_shown_by_a_test(row):
    """One entry of `SHOWN_BY` belongs to the row, and its tests exist."""
    [tests] = [tests for words, tests in SHOWN_BY.items() if row.startswith(words)]
    for file, _, test in (each.partition("::") for each in tests):
        assert re.search(
            rf"(?m)^(?:async )?def {test}\(", (ROOT / "tests" / file).read_text(encoding="utf-8")
        ), (
            file,
            test,
        )


def test_each_entry_has_its_row():
    assert len(ROWS) == len(SHOWN_BY)


def test_each_option_exists():
    named = set(re.findall(r"--rageval-([\w-]+)", PAGE))
    assert named
    assert named <= {option.name.replace("_", "-") for option in all_options()}

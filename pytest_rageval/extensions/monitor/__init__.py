"""`rageval monitor`: scores a sample of each day's traces, and raises an alarm if a mean has fallen."""

from datetime import date
from pathlib import Path
from typing import Final

from pytest_rageval.options.command import REPLY_OPTIONS, Command, one_or_more, value, value_parser

_parse_number: Final = one_or_more("a whole number")
_parse_drop: Final = value_parser(float, lambda drop: drop >= 0, "a number, expected 0 or more")
_parse_day: Final = value_parser(date.fromisoformat, lambda _: True, "a day such as 2026-03-01")

# fmt: off
COMMANDS: Final = (
    Command("monitor", "pytest_rageval.extensions.monitor.command:monitor_command",
            "score a day's traces, and raise an alarm if a mean has fallen",
            "Scores a random sample of the questions of one day, with the passages and the answers of the traces, and "
            "adds the scores to a history. A day that is there already is replaced. Then each score is compared with "
            "its reference days, by a test that may be looked at every day: in a year without a fall there is a false "
            "alarm with a probability of at most 5%, over all scores together. Replies are cached as in tests.",
            (value("files", "FILE", "exported traces, as for `rageval evalset from-traces`", nargs="+"),
             value("--score", "SCORE",
                   "score that needs no labels, such as sufficient@5 or judged.faithfulness@5; may be repeated", str,
                   action="append", required=True),
             value("--max-drop", "X", "the mean may fall by X below that of the reference", _parse_drop,
                   required=True),
             value("--history", "HISTORY", "the file with one line for each day (default: monitor.jsonl)",
                   default=Path("monitor.jsonl")),
             value("--day", "DAY", "the day to score, in UTC (default: yesterday)", _parse_day),
             value("--size", "N", "number of questions that are drawn (default: 100)", _parse_number, default=100),
             value("--seed", "N", "seed of the draw (default: 0)", int, default=0),
             value("--reference-days", "N", "the first N days are the reference (default: 14)", _parse_number,
                   default=14),
             value("--reference", "HISTORY", "take all days of another history as the reference instead"),
             value("--since", "DAY", "ignore the days before DAY, as after an alarm or a new judge", _parse_day),
             "model", "judge_model", "base_url", "judge_base_url", "judge_parameters", "judge_votes", "concurrency",
             "timeout", "flex", "max_unscored", *REPLY_OPTIONS, "prompts"),
            "Exit status: 0; 1 after an alarm, also on the days that follow; 2 if something cannot be used, or there "
            "are no traces of that day.", place=6),
)
# fmt: on

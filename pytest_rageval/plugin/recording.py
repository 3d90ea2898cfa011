"""The cassette at the end of a run: what all processes used, beside what was recorded before."""

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from pytest_rageval.config import Settings
from pytest_rageval.errors import StoreError
from pytest_rageval.plugin.completeness import CompletenessPlugin, SelectionPlugin
from pytest_rageval.plugin.gate import GatePlugin
from pytest_rageval.plugin.printing import print_lines

if TYPE_CHECKING:
    from pytest_rageval.llm.store import Entry

__all__ = ["RecordingPlugin", "WorkerPlugin"]

SHOWN = 3
"""How many keys of unused replies are shown, unless all are asked for with -v."""


class RecordingPlugin:
    """The hooks of the process that writes: the only one, or xdist's controller."""

    NAME: ClassVar[str] = "rageval-recording"

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._lines: dict[str, str] = {}
        self._notes: list[str] = []
        self._failure = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what an xdist worker recorded."""
        output = getattr(node, "workeroutput", {})
        if "rageval_recorded" not in output:
            self._notes.append("a worker crashed: what it used is not on the cassette (it is in the cache)")
        self._lines.update(output.get("rageval_recorded", {}))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the cassette."""
        path = self._settings.cassette
        if path is None or self._config.option.collectonly:
            return
        from pytest_rageval.llm.cassette import read_cassette, read_entry, write_cassette  # noqa: PLC0415 - rare

        self._lines.update(GatePlugin.of(self._config).recorded())
        used = {key: read_entry(line) for key, line in self._lines.items()}
        partial = CompletenessPlugin.of(self._config).partial(session)
        try:
            kept = read_cassette(path) if path.exists() else {}
            unused = {key: entry for key, entry in kept.items() if key not in used}
            dropped = self._settings.drop_unused and not partial
            write_cassette(path, [*used.values(), *(() if dropped else unused.values())])
        except StoreError as error:
            self._failure = str(error)
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            return
        new = len(used.keys() - kept.keys())
        other = sum(used[key].reply != entry.reply for key, entry in kept.items() if key in used)
        replaced = f", {other} in place of other replies" if other else ""
        self._notes.append(
            f"cassette: {path} ({len(used)} replies used, {new} of them new{replaced}; "
            f"{len(unused)} {'dropped' if dropped else 'kept'} unused)"
        )
        if unused:
            self._notes.extend(self._about(unused, partial, dropped=dropped))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was written, or that it could not be."""
        if self._failure:
            print_lines(terminalreporter, [self._failure], red=True)
        if self._notes and terminalreporter.verbosity >= 0:
            terminalreporter.section("rageval cassette")
            print_lines(terminalreporter, self._notes)

    def _about(self, unused: "dict[str, Entry]", partial: str, *, dropped: bool) -> list[str]:
        """What a reader needs in order to decide about unused replies."""
        if partial:
            kept = "not dropped" if self._settings.drop_unused else "kept"
            return [f"unused replies are {kept}: this was no full run ({partial})"]
        models = Counter(entry.outline.get("model") or entry.reply.model for entry in unused.values())
        by_model = ", ".join(f"{count} of {model or 'unknown'}" for model, count in models.most_common())
        keys = sorted(unused)
        shown = keys if self._config.get_verbosity() > 0 else keys[:SHOWN]
        more = f" and {len(keys) - len(shown)} more (-v lists them)" if len(shown) < len(keys) else ""
        listed = ", ".join(key[:12] for key in shown)
        remedy = "" if dropped else "; --rageval-drop-unused drops them"
        return [f"unused: {by_model}: {listed}{more}{remedy}"]


class WorkerPlugin(SelectionPlugin):
    """The hooks of an xdist worker: what it recorded goes to the controller."""

    NAME: ClassVar[str] = "rageval-worker"

    def __init__(self, config: pytest.Config) -> None:
        super().__init__()
        self._config = config

    def pytest_sessionfinish(self) -> None:
        """Leave the replies where xdist takes them along."""
        output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined]
        output["rageval_recorded"] = GatePlugin.of(self._config).recorded()
        output["rageval_deselected"] = self.deselected

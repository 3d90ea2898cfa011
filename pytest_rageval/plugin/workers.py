"""`Workers`: what the controller of pytest-xdist does about its workers before the plugin is started.

The controller sees no test. It starts the plugin when a worker has found a test that uses it.
"""

import json
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_rageval.models.rate_limits import Stall
    from pytest_rageval.models.usage import Usage
    from pytest_rageval.plugin.progress import Progress, Running, Work


class Workers:
    """Passes the inputs of a run to the workers, starts the plugin after them, and displays the sum of their progress.

    `inputs` returns the inputs, and `start` starts the plugin, if it is not.
    """

    def __init__(
        self, config: pytest.Config, inputs: Callable[[], dict[str, object]], start: Callable[[], object]
    ) -> None:
        self._config = config
        self._inputs = inputs
        self._start = start
        self._is_used = False
        self._display: Progress | None = None
        self._lock = threading.Lock()
        self._works: dict[int, Work] = {}
        self._stalls: dict[int, list[Stall]] = {}
        self._running: dict[int, Running] = {}
        self._channels: list[Any] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        channel = node.gateway.newchannel()
        self._channels.append(channel)
        channel.setcallback(partial(self._receive, len(self._channels)))
        node.workerinput |= {**self._inputs(), "rageval_channel": channel}

    @property
    def running_tests(self) -> "list[tuple[str, Usage]]":
        """The node id of the test that each worker last ran, with the test's usage of models."""
        with self._lock:
            return [running for running in self._running.values() if running is not None]

    def _receive(self, worker: int, message: tuple[Any, Any, Any] | None) -> None:
        """Process a message of a worker, in the thread that receives it: None when it starts the plugin, or progress.

        The thread receives the first before the reports of the tests that need the plugin.
        """
        if message is None:
            self._is_used = True
            return
        from pytest_rageval.models.rate_limits import Stall  # noqa: PLC0415 - runs with marked tests
        from pytest_rageval.models.usage import Usage  # noqa: PLC0415
        from pytest_rageval.plugin.progress import Progress, Work  # noqa: PLC0415
        from pytest_rageval.plugin.terminal import terminal_width  # noqa: PLC0415

        work, stalls, running_data = message
        with self._lock:
            self._running[worker] = running_data and (running_data[0], Usage.from_dict(running_data[1]))
            self._works[worker] = Work(*work)
            self._stalls[worker] = [Stall(*fields) for fields in stalls]
            if self._display is None:
                # The dots that pytest prints for finished tests would break a line that is rewritten.
                self._display = Progress(self._config, terminal_width(), in_place=False)
            all_stalls = [stall for worker_stalls in self._stalls.values() for stall in worker_stalls]
            self._display.show(Work.total(self._works.values()), all_stalls)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_from_serializable(self, data: dict[str, Any]) -> None:
        if isinstance(results := data.get("rageval"), str):
            data["rageval"] = json.loads(results)

    # One of these hooks is the first that the main thread calls after a worker has started the plugin.

    @pytest.hookimpl(trylast=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._follow("pytest_collectreport", report=report)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._follow("pytest_runtest_logreport", report=report)

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        self._follow("pytest_testnodedown", node=node, error=error)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
        self._follow("pytest_sessionfinish", session=session, exitstatus=exitstatus)

    def _follow(self, hook: str, **arguments: object) -> None:
        """Start the plugin if a worker has, and pass it the current event, of `hook`, which does not reach it."""
        if self._is_used:
            self._is_used = False
            manager = self._config.pluginmanager
            earlier = manager.get_plugins()
            self._start()
            manager.subset_hook_caller(hook, earlier)(**arguments)

"""The pytest plugin of the parent process: collects multi-rank tests and runs them in worlds."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence

import pytest

from harness.item import MpiItem, mpi_items
from harness.merge import failure_report, group_failures, merge_reports, rank_list
from harness.world import BrokenWorldError, Outcome, World
from shardwise.errors import LaunchError
from shardwise.launch.command import RANK_VARIABLES
from shardwise.launch.mpi import MpiInstallation, find_mpi


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the harness."""
    group = parser.getgroup("mpi worlds")
    group.addoption(
        "--mpi-sizes", default="1,2,3,4", help="world sizes for multi-rank tests (default 1,2,3,4)"
    )
    group.addoption(
        "--mpi-timeout", type=float, default=150.0, help="seconds for a multi-rank test (default 150)"
    )
    group.addoption("--mpi-restarts", type=int, default=5, help="how often a world of one size may restart")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Start the harness, unless this process is a rank, started by the harness or by hand."""
    if not config.pluginmanager.hasplugin("pytest_mpi"):
        raise pytest.UsageError("the tests need pytest-mpi: pip install '.[dev]'")
    if config.getoption("with_mpi") or config.getoption("only_mpi"):
        return
    launched = sorted(name for name in set(RANK_VARIABLES.values()) if name in os.environ)
    if launched:
        raise pytest.UsageError(
            f"pytest runs under an MPI launcher ({launched[0]} is set). Plain pytest starts the ranks "
            "itself; to run as one rank by hand, add --only-mpi"
        )
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "MPIPlugin":
            # Outside of MPI, all that pytest-mpi does is to skip multi-rank tests, which run here, and with
            # them all whose keywords have "mpi" among them, such as a parameter of that name.
            config.pluginmanager.unregister(plugin)
    config.pluginmanager.register(Harness(config), "mpi-harness")


class Harness:
    """Turns multi-rank tests into items and runs those in worlds, one world at a time."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._sizes = _parse_sizes(config.getoption("mpi_sizes"))
        self._files: dict[int, dict[str, None]] = {}
        self._world: World | None = None
        self._restarts: dict[int, int] = {}
        self._mpi: MpiInstallation | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(self) -> Generator[None, object, object]:
        """Replace each multi-rank function by one item per world size."""
        made = yield
        if not isinstance(made, list):
            return made
        items: list[pytest.Item | pytest.Collector] = []
        for node in made:
            if isinstance(node, pytest.Function) and node.get_closest_marker("mpi"):
                items += mpi_items(node, self._sizes)
            else:
                items.append(node)
        return items

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Serial tests first, then one world size after the other, so that each size starts once."""
        items.sort(key=lambda item: item.size if isinstance(item, MpiItem) else 0)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which files the ranks of each world must collect."""
        for item in session.items:
            if isinstance(item, MpiItem):
                self._files.setdefault(item.size, {})[str(item.path)] = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item) -> bool | None:
        """Keep pytest-timeout away from items whose time the world keeps."""
        return True if isinstance(item, MpiItem) else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run a multi-rank item; leave others to pytest."""
        if not isinstance(item, MpiItem):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        following = nextitem if isinstance(nextitem, MpiItem) and nextitem.size == item.size else None
        reports = self._run(item, following)
        if following is None:
            reports += self._end_world(item)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_sessionfinish(self) -> None:
        """Leave no rank behind, however the session ends."""
        if self._world is not None:
            self._world.kill()
            self._world = None

    def _run(self, item: MpiItem, following: MpiItem | None) -> list[pytest.TestReport]:
        try:
            world = self._ready_world(item.size)
            outcome = world.run(
                item.rank_nodeid,
                None if following is None else following.rank_nodeid,
                item.limit(self._config.getoption("mpi_timeout")),
            )
        except LaunchError as error:
            return [failure_report(item, [("no MPI", str(error))], str(error), 0.0)]
        except BrokenWorldError as error:
            first_line = str(error).splitlines()[0]
            return [failure_report(item, [(f"world of {item.size}", str(error))], first_line, 0.0)]
        reports = {
            rank: [self._revive(data) for data in messages] for rank, messages in outcome.reports.items()
        }
        if outcome.whole:
            merged = merge_reports(item, reports)
            if len({_passed(of_rank) for of_rank in reports.values()}) > 1:
                self._drop_world(item.size)  # messages of the rank that failed may be left over in MPI
            return merged
        parts = _account(outcome, reports) + [(f"{who} wrote", text) for who, text in world.logs()]
        self._drop_world(item.size)
        return [failure_report(item, parts, "; ".join(title for title, _ in parts[:3]), outcome.seconds)]

    def _ready_world(self, size: int) -> World:
        """The running world of `size`; starts it if need be."""
        if self._world is not None:
            return self._world
        allowed = self._config.getoption("mpi_restarts")
        if self._restarts.get(size, 0) > allowed:
            raise BrokenWorldError(
                f"not run: the world of {size} had to be restarted more than {allowed} times (--mpi-restarts)"
            )
        if self._mpi is None:
            self._mpi = find_mpi()
        try:
            self._world = World(
                size, self._mpi, self._rank_arguments(size), self._config.invocation_params.dir
            )
        except BrokenWorldError:
            self._restarts[size] = self._restarts.get(size, 0) + 1
            raise
        return self._world

    def _drop_world(self, size: int) -> None:
        assert self._world is not None
        self._world.kill()
        self._world = None
        self._restarts[size] = self._restarts.get(size, 0) + 1

    def _end_world(self, item: MpiItem) -> list[pytest.TestReport]:
        """End the world after its last test, whose failure it is if the world does not end well."""
        if self._world is None:
            return []
        problem = self._world.stop()
        self._world = None
        if problem is None:
            return []
        return [failure_report(item, [("at the end of the world", problem)], problem.splitlines()[0], 0.0)]

    def _rank_arguments(self, size: int) -> list[str]:
        """What pytest in the ranks must be told to see the same tests as here."""
        option = self._config.getoption
        arguments = ["--with-mpi", "-p", "no:cacheprovider", f"--rootdir={self._config.rootpath}"]
        if self._config.inipath is not None:
            arguments += ["-c", str(self._config.inipath)]
        arguments += [f"--import-mode={option('importmode')}", f"--tb={option('tbstyle')}"]
        if option("showlocals"):
            arguments.append("--showlocals")
        for flag, values in (("-W", option("pythonwarnings")), ("-o", option("override_ini"))):
            for value in values or ():
                arguments += [flag, value]
        return arguments + list(self._files[size])

    def _revive(self, data: dict[str, object]) -> pytest.TestReport:
        report = self._config.hook.pytest_report_from_serializable(config=self._config, data=data)
        assert isinstance(report, pytest.TestReport)
        if isinstance(report.longrepr, list):
            report.longrepr = tuple(report.longrepr)  # the place and reason of a skip, a list in JSON
        report.sections = [(title, text) for title, text in report.sections]
        return report


def _account(outcome: Outcome, reports: dict[int, list[pytest.TestReport]]) -> list[tuple[str, object]]:
    """Tell what became of each rank in a test that did not come back from all."""
    parts: list[tuple[str, object]] = []
    failed = {
        rank: next(report for report in of_rank if report.failed)
        for rank, of_rank in reports.items()
        if _passed(of_rank) == "failed"
    }
    parts += [(f"{rank_list(ranks)} failed", longrepr) for ranks, longrepr in group_failures(failed)]
    if outcome.died:
        order = f" (rank {outcome.died[0]} first)" if len(outcome.died) > 1 else ""
        parts.append((f"{rank_list(outcome.died)} died{order}", ""))
    stuck: dict[str, list[int]] = {}
    for rank, stacks in outcome.stuck.items():
        stuck.setdefault(stacks, []).append(rank)
    parts += [
        (f"{rank_list(ranks)} did not come back in {outcome.seconds:.0f} s", stacks)
        for stacks, ranks in stuck.items()
    ]
    passed = [rank for rank, of_rank in reports.items() if _passed(of_rank) == "passed"]
    if passed:
        parts.append((f"{rank_list(passed)} passed", ""))
    return parts


def _passed(reports: Sequence[pytest.TestReport]) -> str:
    if any(report.failed for report in reports):
        return "failed"
    return "skipped" if any(report.skipped for report in reports) else "passed"


def _parse_sizes(text: str) -> list[int]:
    try:
        sizes = sorted({int(part) for part in text.split(",")})
    except ValueError:
        sizes = []
    if not sizes or sizes[0] < 1:
        raise pytest.UsageError(f"--mpi-sizes takes numbers of ranks such as 1,2,4; got {text!r}")
    return sizes

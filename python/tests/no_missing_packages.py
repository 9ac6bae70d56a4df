"""Plugin of pytest (-p no_missing_packages): the run fails if a test was skipped because something is not installed."""

import pytest

MISSING = "is not installed"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    reasons = {report.longrepr[2] for report in reporter.stats.get("skipped", [])}
    missing = sorted(reason.removeprefix("Skipped: ") for reason in reasons if MISSING in reason)
    if missing:
        reporter.write_line("")
        reporter.write_line(f"tests were skipped: {', '.join(missing)}", red=True)
        if session.exitstatus == pytest.ExitCode.OK or session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

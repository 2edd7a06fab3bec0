"""The rules by which a scenario passes. Run with `python3 -m unittest discover -s conformance -p '*_test.py'`."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import report

REQUIRED = """Server scenarios (test against a server):
  - ping
  - server-stateless

Client scenarios (test against a client):
  - tools_call

Run and reported, but never scored:
  extension (2):
    - extra [client]
    - tasks [server]
"""


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "required.txt").write_text(REQUIRED)

    def result(self, scenario, *statuses):
        folder = self.folder / f"{scenario}-2026-11-15T04-07-29-995Z"
        folder.mkdir(parents=True)
        checks = [{"id": "check", "description": "a check", "status": status} for status in statuses]
        (folder / "checks.json").write_text(json.dumps(checks))

    def last_line(self, expected=(), side="client"):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            report.report([self.folder], side, expected)
        return output.getvalue().splitlines()[-1]

    def test_a_scenario_whose_checks_all_succeed_passes(self):
        self.result("tools_call", "SUCCESS", "INFO")
        self.assertEqual(self.last_line(), "1 passed, 0 failed")

    def test_a_failed_check_fails_the_scenario(self):
        self.result("tools_call", "SUCCESS", "FAILURE")
        self.assertEqual(self.last_line(), "0 passed, 1 failed")

    def test_a_warning_fails_the_scenario(self):
        self.result("tools_call", "SUCCESS", "WARNING")
        self.assertEqual(self.last_line(), "0 passed, 1 failed")

    def test_a_scenario_without_checks_fails(self):
        self.result("tools_call", "INFO")
        self.assertEqual(self.last_line(), "0 passed, 1 failed")

    def test_a_scenario_without_a_result_fails(self):
        self.assertEqual(self.last_line(), "0 passed, 1 failed")

    def test_an_extension_that_is_ours_counts_though_it_is_not_scored(self):
        (self.folder / "required.txt").write_text(REQUIRED + "    - auth/dpop [client]\n")
        self.result("tools_call", "SUCCESS")
        self.result("auth/dpop", "FAILURE")
        self.assertEqual(self.last_line(), "1 passed, 1 failed")

    def test_a_scenario_that_is_not_scored_does_not_count(self):
        self.result("tools_call", "SUCCESS")
        self.result("extra", "FAILURE")
        self.assertEqual(self.last_line(), "1 passed, 0 failed")

    def test_an_expected_failure_that_passes_fails_the_run(self):
        self.result("tools_call", "SUCCESS")
        self.assertEqual(self.last_line(expected={"tools_call"}), "0 passed, 1 failed")

    def test_an_expected_failure_that_fails_does_not_count(self):
        self.result("tools_call", "FAILURE")
        self.assertEqual(self.last_line(expected={"tools_call"}), "0 passed, 0 failed")

    def test_each_side_has_scenarios_of_its_own(self):
        self.result("server-ping", "SUCCESS")
        self.result("server-server-stateless", "FAILURE")
        self.result("server-tasks", "SUCCESS")
        self.assertEqual(self.last_line(side="server"), "1 passed, 1 failed")

    def test_expected_failures_are_read_from_the_section_of_the_side(self):
        path = self.folder / "expected.yaml"
        path.write_text("server:\n  - ping\nclient:\n  - sse-retry  # reason\n# - initialize\n")
        self.assertEqual(report.expected_failures(path, "client"), {"sse-retry"})
        self.assertEqual(report.expected_failures(path, "server"), {"ping"})


if __name__ == "__main__":
    unittest.main()

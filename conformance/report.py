"""Reads what the conformance suite wrote and says which scenarios passed.

The suite prints a summary of its own, but a scenario in which the program died before any check counts as passed there.
Here a scenario passes when it has at least one check and every check succeeded.
"""

import argparse
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

# Scenarios of extensions, which the suite runs but does not score, and which are ours to keep.
EXTENSIONS = {
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/enterprise-managed-authorization",
    "auth/wif-jwt-bearer",
}

# The suite names a result folder `<scenario>-<time>`; the scenario may contain a slash.
TIME = re.compile(r"-\d{4}-\d{2}-\d{2}T[\d-]+Z$")


@dataclass
class Scenario:
    """One scenario of one revision and the checks it produced."""

    name: str
    scored: bool
    checks: list = field(default_factory=list)

    def count(self, status):
        return sum(check["status"] == status for check in self.checks)

    def passed(self):
        # A warning is the suite's word for a SHOULD that was not met; we mean to meet those too.
        return self.count("SUCCESS") > 0 and self.count("FAILURE") == 0 and self.count("WARNING") == 0

    def complaints(self):
        if not any(self.count(status) for status in ("SUCCESS", "FAILURE", "WARNING")):
            return ["no checks: the scenario saw nothing it could judge"]
        return [
            f"{check['id']}: {check.get('errorMessage') or check['description']}"
            for check in self.checks
            if check["status"] in ("FAILURE", "WARNING")
        ]


def required(text, side):
    """The scenarios of a side in the output of the suite's `list`, with whether they are scored."""
    scored, section = {}, None
    for line in text.splitlines():
        entry = re.match(r"\s+- (\S+)(?: \[(\w+)\])?$", line)
        if not entry:
            section = line if line and not line.startswith(" ") else section
        elif section.startswith(f"{side.capitalize()} scenarios"):
            scored[entry[1]] = True
        elif section.startswith("Run and reported") and entry[2] == side:
            scored[entry[1]] = False
    return scored


def read(folder, side):
    """All scenarios of a revision: those with a result, and those that should have one."""
    scored = required((folder / "required.txt").read_text(), side)
    scenarios = {name: Scenario(name, is_scored) for name, is_scored in scored.items()}
    for checks in sorted(folder.glob("**/checks.json")):
        name = TIME.sub("", checks.parent.relative_to(folder).as_posix())
        if side == "server":
            name = name.removeprefix("server-")  # the suite puts it before every one
        if name in scenarios:
            scenarios[name].checks = json.loads(checks.read_text())
    return list(scenarios.values())


def expected_failures(path, side):
    """The names under `client:` or `server:`. One entry a line, so no YAML library is needed."""
    names, section = set(), None
    for line in path.read_text().splitlines():
        line = line.split("#")[0].rstrip()
        if line.endswith(":"):
            section = line[:-1]
        elif section == side and line.strip().startswith("- "):
            names.add(line.strip()[2:].strip())
    return names


def judge(scenario, expected):
    """The word for the table, and whether the scenario counts as passed, as failed, or not at all (None)."""
    passed = scenario.passed()
    word = "pass" if passed else "FAIL"
    if not scenario.scored and scenario.name not in EXTENSIONS:
        return f"{word.lower()}, not scored", None
    if scenario.name in expected:
        return ("FAIL: passes, so delete it from the expected failures", False) if passed else ("expected failure", None)
    return word, passed


def report(folders, side, expected, only=None):
    """Prints a table for each revision, then the totals, and returns these."""
    passed = failed = 0
    for folder in folders:
        scenarios = [scenario for scenario in read(folder, side) if only in (None, scenario.name)]
        width = max((len(scenario.name) for scenario in scenarios), default=0)
        print(f"{folder.name}\n  {'scenario':{width}}  passed  failed  warned  verdict")
        for scenario in scenarios:
            word, counts = judge(scenario, expected)
            numbers = [scenario.count(status) for status in ("SUCCESS", "FAILURE", "WARNING")]
            print(f"  {scenario.name:{width}}  " + "  ".join(f"{number:6}" for number in numbers) + f"  {word}")
            passed += counts is True
            failed += counts is False
            if counts is False:
                for complaint in scenario.complaints():
                    print(f"    {complaint}")
        print(f"  everything the suite and the program printed is in {folder}\n")
    print(f"{passed} passed, {failed} failed")
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("side", choices=("client", "server"), help="what was tested")
    parser.add_argument("folders", nargs="+", type=Path, help="the results of one revision each")
    parser.add_argument("--only", help="look at this scenario alone")
    parser.add_argument("--expected-failures", type=Path)
    options = parser.parse_args()
    path, side = options.expected_failures, options.side
    expected = expected_failures(path, side) if path else set()
    passed, failed = report(options.folders, side, expected, options.only)
    # A run that counts nothing has not been one.
    sys.exit(0 if failed == 0 and (passed > 0 or options.only) else 1)


if __name__ == "__main__":
    main()

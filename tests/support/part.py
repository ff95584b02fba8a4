"""Runs a part of a module's tests, so that ctest can run the parts side by side: python3 -m tests.support.part K/N MODULE

The tests of one class stay in order; each Nth belongs to a part, so the parts take about as long as each other.
"""

import sys
import unittest


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def main():
    part, parts = map(int, sys.argv[1].split("/"))
    module = unittest.defaultTestLoader.loadTestsFromName(sys.argv[2])
    chosen = [test for i, test in enumerate(tests_of(module)) if i % parts == part - 1]
    if not chosen:
        sys.exit(f"part {part} of {parts} of {sys.argv[2]} has no tests")
    # The loader's own suites call setUpClass and setUpModule when the class or module changes, in this one too.
    result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(chosen))
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()

"""`./dev test python --all` fails if a package is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

OTHER = "import pytest\n\ndef test_other():\n    pytest.skip('not on this machine')\n"
IN_A_TEST = "import pytest\n\ndef test_it():\n    pytest.importorskip('no_such', reason='no-such is not installed')\n"
IN_A_MODULE = "import pytest\n\npytest.importorskip('no_such', reason='no-such is not installed')\n"


@pytest.mark.parametrize("text, code", [(OTHER, 0), (IN_A_TEST, 1), (IN_A_MODULE, 1)])
def test_a_skip_for_lack_of_a_package_fails(tmp_path, text, code):
    (tmp_path / "test_it.py").write_text(text + "\ndef test_passes():\n    pass\n")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no_missing_packages", "test_it.py"]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert ("tests were skipped: no-such is not installed" in ended.stdout) == (code == 1)

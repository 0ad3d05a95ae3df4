"""What runs in the Python that has the frameworks loaded is a process like any other."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(300)


def test_a_program_has_its_own_arguments_streams_folder_and_environment(loaded_python: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\n"
        "assert 'tensorflow' in sys.modules\n"
        "print(sys.argv[1:], os.getcwd(), os.environ['MINE'], sys.stdin.read())\n"
        "sys.exit('no')\n"
    )
    done = subprocess.run(
        [loaded_python, str(program), "a", "b c"],
        input="said",
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "MINE": "x"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, f"['a', 'b c'] {tmp_path.resolve()} x said\n", "no\n")


def test_errors_and_signals_end_it_as_they_would(loaded_python: str) -> None:
    failed = subprocess.run([loaded_python, "-c", "1 / 0"], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert failed.stderr.endswith("ZeroDivisionError: division by zero\n")
    for number in (signal.SIGKILL, signal.SIGTERM):
        killed = subprocess.run([loaded_python, "-c", f"import os; os.kill(os.getpid(), {int(number)})"], check=False)
        assert killed.returncode == -number


def test_a_program_ends_with_who_asked_for_it(loaded_python: str) -> None:
    forever = "import signal, sys; print('begun', flush=True); signal.pause()"
    with subprocess.Popen([loaded_python, "-c", forever], stdout=subprocess.PIPE) as asked:
        assert asked.stdout is not None
        assert asked.stdout.readline() == b"begun\n"
        asked.kill()
        assert asked.stdout.read() == b""  # all who could write to it are gone

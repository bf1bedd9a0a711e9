"""A folder that somebody else made: its modules are not imported, and its settings of Prefect are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.orchestration.server import set_up_prefect
from pipeline.errors import InputError
from pipeline.privacy.keys import MasterKey

#: Prefect's file of settings by its name, and whether it has any.
FILES = {
    ".env": [("PREFECT_API_URL=http://elsewhere/api", True), ("prefect_home = .", True), ("OTHER=1", False)],
    "prefect.toml": [('[logging]\nconfig_path = "logging.yml"', True), ("", True), ("= broken", True)],
    "pyproject.toml": [
        ('[tool.prefect.api]\nurl = "http://elsewhere/api"', True),
        ("[tool]\nprefect = 1", True),
        ("= broken", True),
        ('tool = "prefect"', True),
        ("[project]\nname = 'prefect'", False),
    ],
}
CASES = [(name, text, sets) for name, texts in FILES.items() for text, sets in texts]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder, a user who trusts none, and a process that has not imported Prefect."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.delitem(sys.modules, "prefect", raising=False)
    return work


@pytest.mark.parametrize(("name", "text", "sets"), CASES)
def test_settings_of_prefect_in_the_current_folder_are_refused_unless_it_is_trusted(
    name: str, text: str, sets: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / name).write_text(text)
    if sets:
        with pytest.raises(InputError, match=rf"^{name}: a file of the current folder may not set Prefect, unless"):
            set_up_prefect()
        monkeypatch.setenv("SPINEWISE_TRUST", f'["{folder}"]')
    set_up_prefect()


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_with_the_name_of_such_a_file_is_refused_and_not_waited_for(name: str, folder: Path) -> None:
    os.mkfifo(folder / name)
    with pytest.raises(InputError, match=f"^{name}: a file of the current folder may not set Prefect"):
        set_up_prefect()


def test_the_names_are_those_that_prefect_reads() -> None:
    """A version of Prefect that reads another file of the current folder would read a stranger's."""
    found = subprocess.run([sys.executable, "-c", _NAMES], capture_output=True, text=True, check=True).stdout.split()
    assert found == sorted(FILES)


_NAMES = """
from prefect.settings import Settings
from prefect.settings.sources import PyprojectTomlConfigSettingsSource
config = Settings.model_config
names = {str(config["env_file"]), str(config["toml_file"])}
names.add(str(PyprojectTomlConfigSettingsSource(Settings).toml_file_path))
print(*sorted(names))
"""

_PROGRAM = """
import os, sys
from pathlib import Path
from pipeline.confidential.custody import KeySource
from pipeline.confidential.process import MeasuringProcess
from flows.orchestration.server import temporary_server
from pipeline.execution.workers import Workers

def main():
    with temporary_server():
        with Workers(2, start_after=0) as workers:
            assert list(workers.run(os.path.basename, ["a/b", "c/d"])) == ["b", "d"]
        with MeasuringProcess(KeySource(command=sys.argv[1]), None) as process:
            process.identity()
        from prefect.client.orchestration import get_client
        with get_client(sync_client=True) as client:
            client.hello()

if __name__ == "__main__":
    main()
"""


def test_no_process_imports_a_module_of_the_current_folder(folder: Path, tmp_path: Path) -> None:
    """The attack: json.py, numpy.py and the like beside the spec.

    Workers, the measuring process, the tracker of `multiprocessing` and Prefect's server are started there. A command
    that prints the key has the user's environment, and nothing is written to the home folder.
    """
    ran = tmp_path / "ran"
    third = {"numpy", "pyarrow", "prefect", "flows", "pipeline", "threadpoolctl", "filelock", "uvicorn", "sqlalchemy"}
    for name in {name for name in sys.stdlib_module_names if not name.startswith("_")} | third:
        (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write(__name__)\nraise ImportError\n")
    program = tmp_path / "program" / "program.py"
    program.parent.mkdir()
    program.write_text(_PROGRAM)
    seen = tmp_path / "seen"
    MasterKey.generate().write(tmp_path / "key")
    command = f"sh -c 'env > {seen}; cat {tmp_path / 'key'}'"
    home = tmp_path / "home"
    home.mkdir()
    project = Path(__file__).resolve().parents[3]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, str(program), command],
        env=environment | {"HOME": str(home), "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not ran.exists(), ran.read_text()
    assert done.returncode == 0, done.stderr
    assert "PYTHONSAFEPATH" not in seen.read_text()
    assert [path.name for path in home.iterdir()] == []

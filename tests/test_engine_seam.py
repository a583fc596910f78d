"""What is an engine's is in its folder: no other shipped Python holds its names, flags, files or words of its log.

The words are taken from the engine's own data, so a new engine is held to it as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from ground.text.toml import tomllib
from tests.places import ROOT
from workloads.registry import engine_named, engine_names

pytestmark = pytest.mark.slow

ROOMS = ("ioflame", "workloads", "collectors", "ebpf", "folding", "viz")
ENGINES = ROOT / "workloads" / "engines"
# Text for a reader: the examples and help of a command.
HELP = {"_ABOUT", "_EXAMPLE", "_EXAMPLES", "_OVERHEAD"}
# By file name. Which engine is the default has to be said; the command and the option that name releases of one are
# called after it; our client's benchmarks have db_bench's names; two categories are those of a published table of
# RocksDB, which the tables of that experiment are held against.
ALLOWED = {
    ("arguments.py", "rocksdb"),
    ("cli.py", "rocksdb"),
    ("registry.py", "rocksdb"),
    ("our_client.py", "fillseq"),
    ("experiment_categories.py", "bloom"),
    ("experiment_categories.py", "libc+k"),
    # A step of the house's, which every engine has or leaves out.
    ("profile.py", "waitforcompaction"),
}
# Shorter ones are words that anybody uses.
_LONG = 12


def words_of(name: str) -> set[str]:
    """What betrays the engine in a string: whole names, and the longer literal parts of its patterns."""
    engine = engine_named(name)
    about = engine.about
    steps = set(engine.workloads()) | set(engine.configurations()) | set(about.cache_types)
    files = {about.data_files.removeprefix("*")}
    # The client that drives several engines is the house's, and so are its files.
    client = set() if engine.by_our_client else {about.client, engine.log_name, engine.report_name}
    threads = set(about.background_threads)
    modules = [ast.parse(path.read_text(encoding="utf-8")) for path in engine.file("engine.py").parent.glob("*.py")]
    assigned = (one for module in modules for one in module.body if isinstance(one, ast.Assign))
    constants = "\n".join(ast.unparse(one) for one in assigned if ast.unparse(one.targets[0]) != "__all__")
    # Names of groups are ours.
    patterns = "\n".join(re.sub(r"\?P<\w+>", "", text) for _, text in strings(constants))
    parts = {part for part in re.findall(r"[A-Za-z][A-Za-z_ -]+", patterns) if len(part) >= _LONG}
    # Not every engine can read with O_DIRECT.
    return ({name, about.package, about.direct_flag} | client | steps | files | threads | parts) - {""}


def categories_of(name: str) -> set[str]:
    rules = tomllib.loads(engine_named(name).file("categories.toml").read_text(encoding="utf-8"))
    return {category["name"] for category in rules["view"]["owner"]["category"]}


def strings(source: str) -> Iterator[tuple[int, str]]:
    """The strings of a module with their lines, without docstrings and help."""
    tree = ast.parse(source)
    spared: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant()) | ast.keyword(arg="help"):
                spared |= set(ast.walk(node))
            case ast.Assign(targets=[ast.Name(id=name)]) if name in HELP:
                spared |= set(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in spared:
            yield node.lineno, node.value


def leaks(source: str, words: set[str], categories: set[str]) -> Iterator[tuple[int, str]]:
    """Line and word of what is an engine's in a module."""
    whole = {word: re.compile(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])") for word in words}
    for line, text in strings(source):
        yield from ((line, word) for word, pattern in whole.items() if pattern.search(text))
        if text in categories:
            yield line, text


def test_the_words_are_those_of_the_engine() -> None:
    words = words_of("rocksdb")
    assert {"rocksdb:low", "db_bench", "interval_qps", "Cumulative compaction", "readrandom", ".sst"} <= words
    said = '"""db_bench"""\nadd(help="db_bench")\nx = "the db_bench itself"\ny = ["bloom", "a bloom"]'
    assert list(leaks(said, words, categories_of("rocksdb"))) == [(3, "db_bench"), (4, "bloom")]


@pytest.mark.parametrize("engine", engine_names())
def test_no_room_knows_an_engine(engine: str) -> None:
    words, categories = words_of(engine), categories_of(engine)
    sources = [path for room in ROOMS for path in (ROOT / room).glob("**/*.py") if not path.is_relative_to(ENGINES)]
    assert len(sources) > 100
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in sources
        for line, word in leaks(path.read_text(encoding="utf-8"), words, categories)
        if (path.name, word) not in ALLOWED
    ]
    assert found == []

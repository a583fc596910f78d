"""What is an engine's is in its folder: no other shipped Python holds its names, flags, files or words of its log.

The words are taken from the engine's own data, so a new engine is held to it as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from ground.text.toml import tomllib
from tests.places import ROOT, shipped
from workloads.registry import engine_named, engine_names

# Where words of engines may be.
OWN = (ROOT / "ground", ROOT / "workloads" / "engines")
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
    # Names of options.
    ("bisect.py", "rocksdb"),
    ("bisect.py", "db_bench"),
    ("options.py", "db_bench"),
    # A step of the house's, which every engine has or leaves out.
    ("profile.py", "waitforcompaction"),
    ("planned_steps.py", "waitforcompaction"),
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
    constants = "\n".join(ast.unparse(one) for one in assigned)
    # Names of groups are ours.
    patterns = "\n".join(re.sub(r"\?P<\w+>", "", text) for _, text in strings(ast.parse(constants)))
    parts = {part for part in re.findall(r"[A-Za-z][A-Za-z_ -]+", patterns) if len(part) >= _LONG}
    # Not every engine can read with O_DIRECT.
    return ({name, about.package, about.direct_flag} | client | steps | files | threads | parts) - {""}


def categories_of(name: str) -> set[str]:
    rules = tomllib.loads(engine_named(name).file("categories.toml").read_text(encoding="utf-8"))
    return {category["name"] for category in rules["view"]["owner"]["category"]}


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The strings of a module with their lines, without docstrings and help."""
    nodes: list[ast.AST] = [tree]
    while nodes:
        match node := nodes.pop():
            case ast.Expr(value=ast.Constant()) | ast.keyword(arg="help"):
                continue
            case ast.Assign(targets=[ast.Name(id=name)]) if name in HELP:
                continue
            case ast.Constant(value=str(text)):
                yield node.lineno, text
        nodes.extend(ast.iter_child_nodes(node))


def leaks(found: Sequence[tuple[int, str]], words: set[str], categories: set[str]) -> Iterator[tuple[int, str]]:
    """Line and word of what is an engine's among the strings of a module."""
    # Longer words first: of two that begin alike the longer is meant.
    any_of = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    whole = re.compile(rf"(?<![A-Za-z0-9_])(?:{any_of})(?![A-Za-z0-9_])")
    yield from ((line, text) for line, text in found if text in categories)
    if whole.search("\n".join(text for _, text in found)):
        yield from ((line, word) for line, text in found for word in whole.findall(text))


def test_the_words_are_those_of_the_engine() -> None:
    words = words_of("rocksdb")
    assert {"rocksdb:low", "db_bench", "interval_qps", "Cumulative compaction", "readrandom", ".sst"} <= words
    said = '"""db_bench"""\nadd(help="db_bench")\nx = "the db_bench itself"\ny = ["bloom", "a bloom"]'
    assert list(leaks(list(strings(ast.parse(said))), words, categories_of("rocksdb"))) == [
        (4, "bloom"),
        (3, "db_bench"),
    ]


def test_no_room_knows_an_engine() -> None:
    rooms = {
        path: list(strings(module)) for path, module in shipped().items() if not any(map(path.is_relative_to, OWN))
    }
    engines = [(words_of(engine), categories_of(engine)) for engine in engine_names()]
    found = {
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path, said in rooms.items()
        for words, categories in engines
        for line, word in leaks(said, words, categories)
        if (path.name, word) not in ALLOWED
    }
    assert found == set()

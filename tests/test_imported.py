"""Every shipped module is imported by a test of the quick tier (`make test-quick`), or listed here with a reason."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from ioflame import cli
from tests.places import ROOT, shipped

COMMANDS = {name for names in cli._GROUPS.values() for name in names}
# As `make test-quick` leaves them out.
LEFT_OUT = {"needs", "long", "by_hand"}

_STARTS = "it starts or judges programs that need root, perf or a kernel that loads BPF"
_DATABASE = "it loads or runs an engine"
_STORE = "tests of whole stores see it, which take seconds"
_CELLS = "tests of whole experiments see it"
_TYPE = "a type alone"

# May only shrink.
NOT_IMPORTED: dict[str, str] = {
    "ebpf.checks": _STARTS,
    "ebpf.trial": _TYPE,
    "folding.offcpu": _STARTS,
    "ground.results.store.spark": _STORE,
    "ground.system.supervisor": _STARTS,
    "ioflame.measure.attach.rights": _STARTS,
    "ioflame.measure.builds": _DATABASE,
    "ioflame.measure.compare.resolve": _DATABASE,
    "ioflame.measure.compare.trees": _DATABASE,
    "ioflame.measure.experiment.conduct": _CELLS,
    "ioflame.measure.experiment.plan": _CELLS,
    "ioflame.measure.profile": _DATABASE,
    "ioflame.present.cell_builds": _CELLS,
    "ioflame.present.cell_seconds": _CELLS,
    "ioflame.present.comparison_page": _CELLS,
    "ioflame.store.imports": _STORE,
    "viz.cell_tables": _CELLS,
}


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def with_code() -> set[str]:
    """Shipped modules by name; a package that holds no code is none."""
    holding = [path for path, module in shipped().items() if any(not isinstance(n, ast.Expr) for n in module.body)]
    return {module_name(path) for path in holding}


def marks(node: ast.AST) -> set[str]:
    """The names of `pytest.mark` in an expression."""
    return {
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Attribute) and one.value.attr == "mark"
    }


def is_left_out(node: ast.stmt) -> bool:
    """Whether it is a test, or the mark of a whole file, that `make test-quick` leaves out."""
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
        reads_run = any(argument.arg == "finished" for argument in node.args.args)
        return reads_run or any(marks(one) & LEFT_OUT for one in node.decorator_list)
    names = (
        [target.id for target in node.targets if isinstance(target, ast.Name)] if isinstance(node, ast.Assign) else []
    )
    return "pytestmark" in names and bool(marks(node) & LEFT_OUT)


def is_quick(path: Path) -> bool:
    body = parsed(path).body
    whole = any(is_left_out(node) for node in body if isinstance(node, ast.Assign))
    tests = (node for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
    return not whole and not all(map(is_left_out, tests))


def quick_nodes(path: Path) -> list[ast.AST]:
    """All of a file but the tests that are left out."""
    return [one for node in parsed(path).body if not is_left_out(node) for one in ast.walk(node)]


def imported(path: Path) -> Iterator[str]:
    """Names that a file imports, and uses beside the tests that are left out: of modules, and of what is in one."""
    nodes = quick_nodes(path)
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    for node in nodes:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for alias in node.names:
            if (alias.asname or alias.name).partition(".")[0] not in used:
                continue
            if isinstance(node, ast.Import):
                yield alias.name
            elif node.module:
                yield from (node.module, f"{node.module}.{alias.name}")


def constants(nodes: list[ast.expr]) -> list[str]:
    """The first two, where they are text."""
    return [one.value for one in nodes[:2] if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def commands_given(path: Path) -> Iterator[str]:
    """Modules of the commands in lists of words for the command line (`["show", run]`), and in tables of such words
    (`{"sweep -q": [...]}`): it imports them by these."""
    for node in quick_nodes(path):
        if isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            lines = [key.split() for key in keys if isinstance(key, str)]
        elif isinstance(node, ast.List):
            lines = [constants(node.elts)]
        elif isinstance(node, ast.Call):  # build_parser("attach"), ioflame.run("show", run)
            lines = [constants(node.args)]
        else:
            continue
        for words in lines:
            if words and words[0] in COMMANDS:
                module = f"ioflame.commands.{cli._MODULES.get(words[0], words[0])}"
                yield from (module, ".".join([module, *words[1:]]))


def imported_by_quick_tests() -> set[str]:
    """Through the tests' own helpers as well, and through nothing that is shipped."""
    waiting = [path for path in (ROOT / "tests").rglob("test_*.py") if is_quick(path)]
    seen = set(waiting)
    found: set[str] = set()
    while waiting:
        path = waiting.pop()
        found.update(commands_given(path))
        for name in imported(path):
            found.add(name)
            helper = (ROOT / name.replace(".", "/")).with_suffix(".py")
            if name.startswith("tests.") and helper.exists() and helper not in seen:
                seen.add(helper)
                waiting.append(helper)
    return found


def test_every_module_is_imported_by_a_quick_test_or_listed() -> None:
    missing = with_code() - imported_by_quick_tests()
    assert missing - set(NOT_IMPORTED) == set(), "write a quick test of what it does"
    assert set(NOT_IMPORTED) - missing == set(), "it is imported now, or gone: take it from the list"

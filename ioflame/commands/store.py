"""`ioflame store`: many runs, of many hosts, as Parquet files and SQL.

A store is a directory. Anybody who may write there adds to it, at any time, and readers need no lock.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ground.errors import EXIT_CHECK_FAILED, EXIT_OK, UsageError
from ground.results.store.database import Answer, Store
from ground.text.progress import Reporter
from ground.text.tsv import tsv
from ioflame.commands.arguments import Commands, add_options
from ioflame.store.add import add_to_store
from ioflame.store.export import export_run
from ioflame.store.history import watch_release
from ioflame.store.imports import FORMATS, SETTINGS, settings_of
from ioflame.store.pyroscope import push_run
from viz.terminal.fleet import render_watch

_EXAMPLES = """examples:
  ioflame store add S runs/latest runs/20261123T000000-compare-readrandom
  ioflame store add S profile.pb.gz --set version=10.6 --set workload=serving
  ioflame store add S report.tsv --set host=c4a
  ioflame store ls S
  ioflame store sql S 'FROM relative_qps'
  ioflame store sql S 'FROM us_per_query WHERE "view" = $$owner$$'
  ioflame store sql S "FROM frames_by_difference('10.5', '10.6') LIMIT 20"
  ioflame store sql S "FROM stacks_through('10.6', 'rocksdb::Block::Iter::Seek')"
  ioflame store sql S 'FROM noise'
  ioflame store fleet S 10.5 10.6             hosts as units: within strata, mix
  ioflame store export S RUN -o again/        the run directory; -o x.pb.gz, -o x.folded
  ioflame store export S latest --pyroscope http://127.0.0.1:4040
"""
_LS = "SELECT run, created, test, label, artifact, host, campaign, session, arm, source FROM runs ORDER BY created, run"


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "store",
        help="many runs and hosts in one place, with SQL",
        description=_EXAMPLES + "\n" + (__doc__ or ""),
    )
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    def verb(name: str, about: str, run_verb: Any) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=about, description=about)
        made.add_argument("store", type=Path, metavar="STORE", help="its directory")
        add_options(made, "store")
        made.set_defaults(run=run, verb=run_verb)
        return made

    add = verb("add", "add runs, comparisons, experiments, or profiles of other programs", _add)
    add.add_argument("paths", type=Path, nargs="+", metavar="PATH", help="a directory of ours, or a file")
    add.add_argument("--format", choices=FORMATS, default="", help="format of files whose names do not show it")
    add.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help=f"of a file or run: {', '.join(SETTINGS)}"
    )
    _rows(verb("ls", "list the runs", _ls))
    sql = _rows(verb("sql", "a query, over the tables and views of docs/store.md", _sql))
    sql.add_argument("query", metavar="SQL")
    export = verb("export", "a run as its directory, as pprof or as folded stacks, or to a Pyroscope", _export)
    export.add_argument("name", metavar="RUN", help="`latest`: the newest with stacks")
    to = export.add_mutually_exclusive_group(required=True)
    to.add_argument("-o", "--out", type=Path, metavar="OUT", help="DIR, FILE.pb.gz or FILE.folded")
    to.add_argument("--pyroscope", metavar="URL", help="a profile for each event to its /ingest")
    export.add_argument("--replace", action="store_true", help="overwrite FILE; for a file server that hands it out")
    fleet = _rows(verb("fleet", "what a version costs its hosts more or less than another; docs/fleet.md", _fleet))
    fleet.add_argument("base", metavar="BASE", help="a version")
    fleet.add_argument("arm", metavar="VERSION", help="the version whose cost is in question")
    remove = verb("rm", "take runs out of it", _remove)
    remove.add_argument("names", nargs="+", metavar="RUN")
    verb("compact", "merge the files of each day; no sum changes", _compact)
    verb("check", "read all of it, and say what is wrong", _check)


def _rows(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines with tabs")
    return parser


def run(arguments: argparse.Namespace) -> int:
    for path in arguments.paths if arguments.verb is _add else ():
        if not path.exists():
            raise UsageError(
                f"there is no {path}", means="nothing was added", mend="ioflame store add STORE runs/latest"
            )
    store = Store(arguments.store, create=arguments.verb is _add, memory=arguments.memory)
    code: int = arguments.verb(store, arguments)
    if arguments.verb is not _check:
        # After the query: one whose inside is damaged is found by reading it.
        for one in store.skipped:
            print(f"ioflame: skipped {one.path}: {one.why}", file=sys.stderr)
    return code


def _add(store: Store, arguments: argparse.Namespace) -> int:
    settings, code = settings_of(arguments.set), EXIT_OK
    for path in arguments.paths:
        with Reporter.on_terminal().stage(f"add {path}"):
            found = add_to_store(store, path.resolve(), settings, arguments.format)
        for line in found.left_out:
            print(f"ioflame: {line}", file=sys.stderr)
        for name in found.new:
            print(f"added:        {name}")
        if found.known:
            print(f"known:        {len(found.known)} of {path}, which the store holds already")
        if not found.new and not found.known:
            code = EXIT_CHECK_FAILED
    return code


def _ls(store: Store, arguments: argparse.Namespace) -> int:
    return _print(store.query(_LS), arguments.json)


def _sql(store: Store, arguments: argparse.Namespace) -> int:
    return _print(store.query(arguments.query), arguments.json)


def _print(answer: Answer, as_json: bool) -> int:
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(answer.as_dicts(), enc_hook=str)).decode())
    elif answer.rows:
        print(tsv({"": [{name: _cell(value) for name, value in row.items()} for row in answer.as_dicts()]}), end="")
    else:
        print("\t".join(answer.columns))
    return EXIT_OK


def _cell(value: object) -> str | int | float | None:
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _export(store: Store, arguments: argparse.Namespace) -> int:
    if arguments.pyroscope:
        for name in push_run(store, arguments.name, arguments.pyroscope):
            print(f"sent:         {name}")
    else:
        export_run(store, arguments.name, arguments.out, replace=arguments.replace)
        print(f"wrote {arguments.out}")
    return EXIT_OK


def _fleet(store: Store, arguments: argparse.Namespace) -> int:
    found = watch_release(store, arguments.base, arguments.arm)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        print(render_watch(found, arguments.base, arguments.arm))
    return EXIT_OK


def _remove(store: Store, arguments: argparse.Namespace) -> int:
    store.remove(arguments.names)
    return EXIT_OK


def _compact(store: Store, arguments: argparse.Namespace) -> int:
    print(f"{store.compact():,} files fewer in {arguments.store}")
    return EXIT_OK


def _check(store: Store, arguments: argparse.Namespace) -> int:
    wrong: Sequence[str] = store.check()
    for line in wrong:
        print(line)
    if not wrong:
        print(f"ok: {shlex.quote(str(arguments.store))} holds together")
    return EXIT_CHECK_FAILED if wrong else EXIT_OK

"""What was published of an engine's versions: relative rates, to be held against those that are measured here."""

from __future__ import annotations

import msgspec

from workloads.releases import version_number


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """relative: rate over that of the published base, by cell, column and version; source: where it was published"""

    source: str
    relative: dict[str, dict[str, dict[str, float]]]

    def at(self, cell: str, column: str, version: str) -> tuple[str, float] | None:
        """The published version and its figure: this one, or a patch of the same minor version; None without one."""
        published = self.relative.get(cell, {}).get(column, {})
        if version in published:
            return version, published[version]
        minor = version_number(version)[:2]
        return next(((known, value) for known, value in published.items() if version_number(known)[:2] == minor), None)

    def around(self, cell: str, column: str, version: str) -> list[tuple[str, float]]:
        """Of a version that nobody published: the last one before it and the first one after it, where there are."""
        published = self.relative.get(cell, {}).get(column, {})
        ordered = sorted(published.items(), key=lambda known: version_number(known[0]))
        number = version_number(version)
        before = [known for known in ordered if version_number(known[0]) < number]
        after = [known for known in ordered if version_number(known[0]) > number]
        return [*before[-1:], *after[:1]]

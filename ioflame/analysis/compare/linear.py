"""Least squares with a handful of columns."""

from __future__ import annotations

from collections.abc import Sequence

# A column of which so little is left beside the others says nothing of its own.
_NOTHING_LEFT = 1e-9


def solve(products: Sequence[Sequence[float]], cross: Sequence[float]) -> tuple[list[float], list[list[float]], int]:
    """Coefficients, inverse of `products`, rank: Gauss and Jordan. A column that others explain has 0 in all of them.

    products: X'X of centred columns; cross: X'y.
    """
    size = len(cross)
    rows = [[*map(float, products[i]), *[float(i == j) for j in range(size)]] for i in range(size)]
    used: list[int] = []
    for k in range(size):
        if rows[k][k] <= _NOTHING_LEFT * products[k][k]:
            continue
        used.append(k)
        pivot = rows[k][k]
        rows[k] = [value / pivot for value in rows[k]]
        for i in range(size):
            if i != k and (factor := rows[i][k]):
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    inverse = [[rows[i][size + j] if i in used and j in used else 0.0 for j in range(size)] for i in range(size)]
    coefficients = [sum([a * b for a, b in zip(row, cross, strict=True)]) for row in inverse]
    return coefficients, inverse, len(used)

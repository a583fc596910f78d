"""Is B slower than A: pure functions from numbers to differences, verdicts, plans and budgets.

figures    what is compared, which way is worse; windows in blocks in sessions -> ln(arm/base) of each block
nested     blocks in sessions -> a difference with its interval; linear: the regression within sessions
verdict    a difference -> one of five verdicts; looks; many cells
bars       what bars a verdict: a twin that differs, a place in the block that does
planning   variances and costs -> blocks and minutes for each delta
order      the order of arms in blocks, by a seed
budget     the change in us per query, row by row, with simultaneous intervals
relative   tables over versions and hosts
"""

-- What cannot be in a store that is whole: how many, and of what.
SELECT count(*) AS n, 'stacks of samples that no table names' AS what
FROM (SELECT DISTINCT stack_hi, stack_lo FROM samples) ANTI JOIN stacks USING (stack_hi, stack_lo)
UNION ALL
SELECT count(*), 'frames of stacks that no table names'
FROM (SELECT DISTINCT unnest(frames) AS frame FROM stacks) ANTI JOIN frames USING (frame)
UNION ALL
SELECT count(*), 'stack ids that stand for two lists of frames'
FROM (SELECT 1 FROM every_stack GROUP BY stack_hi, stack_lo HAVING count(DISTINCT frames) > 1);

-- What views.sql calls by names of its own.
CREATE OR REPLACE TEMPORARY FUNCTION last_of(list ARRAY<BIGINT>) RETURNS BIGINT RETURN element_at(list, -1);
CREATE OR REPLACE TEMPORARY FUNCTION overlap(list ARRAY<BIGINT>, ids ARRAY<BIGINT>) RETURNS BOOLEAN RETURN arrays_overlap(list, ids);
CREATE OR REPLACE TEMPORARY FUNCTION map_of(keys ARRAY<BIGINT>, names ARRAY<STRING>) RETURNS MAP<BIGINT, STRING>
    RETURN map_from_arrays(keys, names);
CREATE OR REPLACE TEMPORARY FUNCTION names_of(list ARRAY<BIGINT>, names MAP<BIGINT, STRING>) RETURNS STRING
    RETURN array_join(transform(list, id -> names[id]), ';');
CREATE OR REPLACE TEMPORARY FUNCTION fact_of(facts STRING, place STRING) RETURNS STRING RETURN get_json_object(facts, place);

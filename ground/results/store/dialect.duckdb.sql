-- What views.sql calls by names of its own.
CREATE MACRO last_of(list) AS list[-1];
CREATE MACRO overlap(list, ids) AS list_has_any(list, ids);
CREATE MACRO map_of(keys, names) AS map(keys, names);
CREATE MACRO names_of(list, names) AS array_to_string([names[id] FOR id IN list], ';');
CREATE MACRO fact_of(facts, place) AS json_extract_string(facts, place);

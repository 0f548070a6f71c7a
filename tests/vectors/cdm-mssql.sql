WITH people AS
(SELECT anon_1.person_id AS person_id, anon_1.start AS start, 1 AS treated
FROM (SELECT cohort_2.subject_id AS person_id, min(cohort_2.cohort_start_date) AS start
FROM results.cohort AS cohort_2
WHERE cohort_2.cohort_definition_id = 101 GROUP BY cohort_2.subject_id) AS anon_1
WHERE NOT (EXISTS (SELECT *
FROM (SELECT cohort_3.subject_id AS person_id, min(cohort_3.cohort_start_date) AS start
FROM results.cohort AS cohort_3
WHERE cohort_3.cohort_definition_id = 102 GROUP BY cohort_3.subject_id) AS anon_2
WHERE anon_2.person_id = anon_1.person_id)) UNION ALL SELECT anon_3.person_id AS person_id, anon_3.start AS start, 0 AS treated
FROM (SELECT cohort_4.subject_id AS person_id, min(cohort_4.cohort_start_date) AS start
FROM results.cohort AS cohort_4
WHERE cohort_4.cohort_definition_id = 102 GROUP BY cohort_4.subject_id) AS anon_3
WHERE NOT (EXISTS (SELECT *
FROM (SELECT cohort_5.subject_id AS person_id, min(cohort_5.cohort_start_date) AS start
FROM results.cohort AS cohort_5
WHERE cohort_5.cohort_definition_id = 101 GROUP BY cohort_5.subject_id) AS anon_4
WHERE anon_4.person_id = anon_3.person_id)))
 SELECT people.person_id AS person_id, people.treated AS treated, CASE WHEN (EXISTS (SELECT *
FROM results.cohort AS cohort_1
WHERE cohort_1.cohort_definition_id = 103 AND cohort_1.subject_id = people.person_id AND datediff(day, people.start, cohort_1.cohort_start_date) BETWEEN 1 AND 90)) THEN 1 ELSE 0 END AS event, DATEPART(year, people.start) - who.year_of_birth AS age, CASE WHEN (who.gender_concept_id IN (8532)) THEN 1 ELSE 0 END AS female, CASE WHEN (EXISTS (SELECT *
FROM cdm.condition_occurrence AS condition_occurrence_1
WHERE condition_occurrence_1.person_id = people.person_id AND condition_occurrence_1.condition_concept_id IN (SELECT concept_ancestor_1.descendant_concept_id
FROM cdm.concept_ancestor AS concept_ancestor_1
WHERE concept_ancestor_1.ancestor_concept_id IN (201826)) AND datediff(day, people.start, condition_occurrence_1.condition_start_date) BETWEEN -365 AND 0)) THEN 1 ELSE 0 END AS diabetes, (SELECT count(*) AS count_1
FROM cdm.drug_exposure AS drug_exposure_1
WHERE drug_exposure_1.person_id = people.person_id AND drug_exposure_1.drug_concept_id IN (1545958) AND datediff(day, people.start, drug_exposure_1.drug_exposure_start_date) BETWEEN -100 AND -1) AS statins, (SELECT TOP 1 measurement_1.value_as_number
FROM cdm.measurement AS measurement_1
WHERE measurement_1.person_id = people.person_id AND measurement_1.measurement_concept_id IN (3004249) AND datediff(day, people.start, measurement_1.measurement_date) BETWEEN -30 AND 0 AND measurement_1.value_as_number IS NOT NULL ORDER BY measurement_1.measurement_date DESC, measurement_1.measurement_id DESC) AS pressure, (SELECT max(measurement_2.value_as_number) AS max_1
FROM cdm.measurement AS measurement_2
WHERE measurement_2.person_id = people.person_id AND measurement_2.measurement_concept_id IN (3004249) AND datediff(day, people.start, measurement_2.measurement_date) BETWEEN -30 AND 0) AS highest
FROM people JOIN cdm.person AS who ON who.person_id = people.person_id ORDER BY people.person_id
SELECT (SELECT count(*) AS count_1
FROM (SELECT cohort_1.subject_id AS person_id, min(cohort_1.cohort_start_date) AS start
FROM results.cohort AS cohort_1
WHERE cohort_1.cohort_definition_id = 101 GROUP BY cohort_1.subject_id) AS anon_1) AS target, (SELECT count(*) AS count_2
FROM (SELECT cohort_2.subject_id AS person_id, min(cohort_2.cohort_start_date) AS start
FROM results.cohort AS cohort_2
WHERE cohort_2.cohort_definition_id = 102 GROUP BY cohort_2.subject_id) AS anon_2) AS comparator, (SELECT count(*) AS count_3
FROM (SELECT cohort_1.subject_id AS person_id, min(cohort_1.cohort_start_date) AS start
FROM results.cohort AS cohort_1
WHERE cohort_1.cohort_definition_id = 101 GROUP BY cohort_1.subject_id) AS anon_1 JOIN (SELECT cohort_2.subject_id AS person_id, min(cohort_2.cohort_start_date) AS start
FROM results.cohort AS cohort_2
WHERE cohort_2.cohort_definition_id = 102 GROUP BY cohort_2.subject_id) AS anon_2 ON anon_1.person_id = anon_2.person_id) AS both_cohorts
WITH people AS
(SELECT anon_1.person_id AS person_id, anon_1.start AS start, 1 AS treated
FROM (SELECT cohort_1.subject_id AS person_id, min(cohort_1.cohort_start_date) AS start
FROM results.cohort AS cohort_1
WHERE cohort_1.cohort_definition_id = 101 GROUP BY cohort_1.subject_id) AS anon_1
WHERE NOT (EXISTS (SELECT *
FROM (SELECT cohort_2.subject_id AS person_id, min(cohort_2.cohort_start_date) AS start
FROM results.cohort AS cohort_2
WHERE cohort_2.cohort_definition_id = 102 GROUP BY cohort_2.subject_id) AS anon_2
WHERE anon_2.person_id = anon_1.person_id)) UNION ALL SELECT anon_3.person_id AS person_id, anon_3.start AS start, 0 AS treated
FROM (SELECT cohort_3.subject_id AS person_id, min(cohort_3.cohort_start_date) AS start
FROM results.cohort AS cohort_3
WHERE cohort_3.cohort_definition_id = 102 GROUP BY cohort_3.subject_id) AS anon_3
WHERE NOT (EXISTS (SELECT *
FROM (SELECT cohort_4.subject_id AS person_id, min(cohort_4.cohort_start_date) AS start
FROM results.cohort AS cohort_4
WHERE cohort_4.cohort_definition_id = 101 GROUP BY cohort_4.subject_id) AS anon_4
WHERE anon_4.person_id = anon_3.person_id)))
 SELECT TOP 5 measurement_1.measurement_concept_id AS concept, min(concept_1.concept_name) AS name, count(DISTINCT measurement_1.person_id) AS people
FROM people JOIN cdm.measurement AS measurement_1 ON measurement_1.person_id = people.person_id JOIN cdm.concept AS concept_1 ON concept_1.concept_id = measurement_1.measurement_concept_id
WHERE datediff(day, people.start, measurement_1.measurement_date) BETWEEN -365 AND 0 AND measurement_1.measurement_concept_id != 0 GROUP BY measurement_1.measurement_concept_id ORDER BY count(DISTINCT measurement_1.person_id) DESC, measurement_1.measurement_concept_id

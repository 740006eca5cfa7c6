"""Planted defects of nodes over a shared store: of what PostgreSQL is told, of the engines, and of what lies between
nodes. Each belongs to a line of the table of what a crash does (`lines.py`).

    lines.py       what may happen, and what has to come of it
    changed_sql.py how a defect is planted in SQL
    sql_…py        defects of SQL
    engines.py     defects of the engines, and of what a node makes of a store
    reading.py     defects of what is made of what lies in a store: damage, and reading ahead
    nodes.py       defects that a seed of several nodes notices, or of one over a store
    simulated.py   those that the tests of the simulation keep beside them
    table.py       all of them, by line, and the section of docs/mutants.md
    run.py         `make mutants-over-a-store`: plants one at a time, and reports
"""

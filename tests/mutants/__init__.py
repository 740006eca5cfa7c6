"""Planted defects: named ways to be wrong, of the kind that shipped elsewhere. Our tests have to notice each.

    mutant.py     what a mutant is, and how it is planted into the live code
    tables/       the mutants, by the part of the broker that they are in
    catchers.py   what is expected to notice them, one in a process of its own
    stories.py    which scenario or seed is known to notice each
    asking.py     one mutant against the tests that may notice it
    run.py        `make mutants`: plants one at a time, reports, writes docs/mutants.md
    over_a_store/ those of nodes over a shared store, in SQL, too: `make mutants-over-a-store`
    at_random/    defects that nobody chose: `make mutants-at-random`
    plugin.py     plants the mutant of the environment variable before pytest collects anything

The environment variable `TALLYSTICK_MUTANT` names the mutant of a process.
"""

"""Defects that nobody chose: one automatic change of the code at a time, drawn by a seed, before every kind of test.

operators.py  the changes: mutmut's, and some of the kinds that brokers shipped
source.py     every place where one can be made, in the code that carries the promises
draw.py       a sample by a seed, each kind of change with the same share
reach.py      which unit tests reach a line, measured by coverage
trial.py      one defect against the tests that may notice it, the quickest first
record.py     what became of each, kept on the disk: a run goes on where it was ended
__main__.py   `make mutants-at-random N=300 SEED=7`
"""

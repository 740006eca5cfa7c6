"""A pytest plugin (`-p tests.mutants.plugin`): the process lives with the mutant that its environment names."""

import os

from tests.mutants.mutant import VARIABLE
from tests.mutants.tables import MUTANTS

if name := os.environ.get(VARIABLE):
    _planted = MUTANTS[name].planted()
    _planted.__enter__()

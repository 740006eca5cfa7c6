"""explaining: `stuck` readers of committed records; `group` and `lag` of groups; `fenced` producers and the `timeline`
of a transactional id; `lint` of clients; `status` what a command ends with."""

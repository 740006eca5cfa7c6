"""explaining: `stuck` readers of committed records; `group` and `lag` of groups; `status` what a command ends with."""

"""Findings in the history of a group: what is wrong, since when, and what to do.

    findings = find(history, Thresholds(), at)

Each rule is a pure function of the rows of one group in a period: no clock, no I/O. `at` is the
moment that the rows are as of. Rules that need lag say nothing without samples, and none claims
what records that are missing could refute.

- `catalogue`: all rules with their texts. `thresholds`: their numbers. `finding`: a finding.
- `facts`: the rows of a group as the rules need them; `commit_series`, `clients`, `timeline` and
  `status` are parts of it.
- `member_rules`, `rebalance_rules`, `commit_rules`, `assignment_rules`, `lag_rules`: the rules.
- `search`: `find`.
"""

"""The report of a history: what groups did, as one HTML page and as a picture.

Rows of a history become a view, and the view becomes text. All of it is pure: the time of the
report is an argument.

    spans      a stretch of time, its axis, and times in words
    names      names that others chose, made short and harmless; the names of members
    causes     why a generation began, in words and as a mark
    certainty  what the history does not know
    owners     who owned what: bands
    series     commits and lag in buckets
    charts     all of these as numbers: shares of the width, pixels of the height
    tables     the same as tables
    findings   findings, the worst first
    view       the section of a group
    overview   all groups, the worst first
    limits     how much of a group is drawn
    style      colours and style sheets
    page       the HTML; `templates` has it, its style and its script
    picture    an SVG of the same charts; `png` makes a PNG of it

A page loads nothing and is complete without its script. The templates escape everything.
"""

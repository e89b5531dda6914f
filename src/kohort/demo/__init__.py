"""`make run`: a group at work on a real data set, from the first start to the last commit.

    python -m kohort.demo [--data DIR] [--listen HOST:PORT] [--seconds N] [--picture FILE]

It starts `kohort serve`, loads a year of flights into a topic, and lets members of a client library that others wrote
consume it in a group while one more joins and one is killed. What it shows comes from the server's HTTP port and from
what the members say; nothing is staged but the members' pace.

    show.py     what happens when                 server.py   the server, a process
    view.py     the picture of one moment         crew.py     the members, processes running member.py
    summary.py  what happened, afterwards         loading.py  the topic, filled from flights.py
    tally.py    who processed what, how often     group.py    what the server says about the group
"""

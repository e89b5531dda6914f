"""`make run`: a group at work on a real data set, from the first start to the last commit.

    python examples/demo [--data DIR] [--listen HOST:PORT] [--seconds N] [--picture FILE]
                         [--install COMMAND...]

It starts `kohort serve`, loads a year of flights into a topic, and lets members of `kohort.client`
consume it in a group, together with one of a library that others wrote, while one more joins, one
leaves and one is killed. What it shows comes from the server's HTTP port and from what the members
say; nothing is staged but the members' pace.

    show.py     what happens when                 server.py   the server, a process
    view.py     the picture of one moment         loading.py  the topic, filled from flights.py
    summary.py  what happened, afterwards         crew.py     the members, processes running
    tally.py    who processed what, how often       member.py             on kohort.client, or
    group.py    what the server says about it       librdkafka_member.py  on the other library
    work.py     what members of both kinds do     installation.py  of Spark, meanwhile
    waiting.py  signs of life
"""

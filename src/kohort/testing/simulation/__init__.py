"""Deterministic simulation of the server and of programs that use `kohort.client`.

loop, process, machine_sources   one event loop for all processes, on simulated time
network, transport, sockets      connections between them, and what can go wrong with these
disk, server                     the real server, whose data survives its process
faults, injection                what goes wrong, as data, and how it is done
frames, ledger, invariants       what clients were promised, and whether it still holds
members, simulation              what a scenario uses
runner, shrinking                one run, the search for a failing one, and its smallest form
"""

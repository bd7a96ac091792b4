"""How feedproxy and other caches do in the public tests for HTTP caches (cache-tests.fyi).

    make conformance                        feedproxy and every peer that is installed
    make conformance SUITE=../cache-tests   the same with a checkout of the suite
    make conformance-check                  feedproxy alone: has a test been lost that passed before?

    suite.py    where the suite comes from, and its origin server
    client.mjs  runs its client and writes what came of every test
    caches.py   what is started in front of that origin: feedproxy, and the peers of peers/
    outcome.py  what a result means, and how results are counted
    passed.py   the tests that passed before: passed.txt
    page.py     docs/reference/conformance.md, made from results/ and notes.toml

Of the suite itself nothing is kept here but the names by which it calls its tests.
"""

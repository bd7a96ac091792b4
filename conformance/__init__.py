"""Results of feedproxy and other caches in the public tests for HTTP caches (cache-tests.fyi).

    make conformance                        feedproxy and every installed peer
    make conformance SUITE=../cache-tests   the same with a checkout of the suite
    make conformance-check                  feedproxy alone: check that no test fails that passed before

    suite.py    the source of the suite, and its origin server
    client.mjs  runs the suite's client and writes the result of each test
    caches.py   the caches in front of that origin: feedproxy, and the peers of peers/
    outcome.py  the meaning of a result, and how results are counted
    passed.py   the tests that passed before: passed.txt
    page.py     docs/reference/conformance.md, made from results/ and notes.toml

This folder contains nothing of the suite but the names of its tests.
"""

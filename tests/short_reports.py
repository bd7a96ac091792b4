"""Short messages from the processes that run the tests to the process that prints the results.

xdist sends six messages for each test, which takes more processor time than half of the tests take. What nothing
prints is left out: the start of each test, a successful setup and teardown, and the keywords and the captured log of a
test that passed. The report of a test that passed is sent as one text, because xdist writes and reads each of the forty
texts and numbers in a report by several calls in Python.
"""

import json
from typing import Any

import pytest


def shorten(config: pytest.Config) -> None:
    """Leave out what is not printed, if this process is one of xdist's and the options print nothing of it."""
    option = config.option
    if option.durations is not None or option.xmlpath or option.verbose > 0 or set(option.reportchars) & set("AP"):
        return
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            _shorten_messages(plugin)


def restore(data: object) -> pytest.TestReport | None:
    """Return the report of a test that passed if it was sent as one text."""
    return pytest.TestReport._from_json(json.loads(data)) if isinstance(data, str) else None


def _shorten_messages(interactor: Any) -> None:
    send = interactor.sendevent

    def send_if_printed(name: str, **values: Any) -> None:
        match name:
            case "logstart":
                return
            case "logfinish" if isinstance(interactor.nextitem_index, int):
                return  # the line with 100 % is printed after the last test of a process
            case "testreport" if (report := values["data"])["outcome"] == "passed":
                if report["when"] != "call":
                    return
                values["data"] = json.dumps({**report, "keywords": {}, "sections": []})
        send(name, **values)

    interactor.sendevent = send_if_printed

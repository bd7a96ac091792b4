"""Conversion of reader accounts to lines of JSON and back, for the exchange among workers. Findings of rules that a
reader kept have no example requests in this form, because the page of readers does not show them."""

import json

import msgspec

from feedproxy.notes import Level, Note, notes_of
from feedproxy.scoring import (
    client_hygiene_rules,
    conditional_request_rules,
    polling_interval_rules,
    redirect_and_gone_rules,
)
from feedproxy.scoring.reader_accounts import ReaderAccount

KINDS: dict[str, type[Note]] = {
    kind.id(): kind
    for module in (conditional_request_rules, client_hygiene_rules, redirect_and_gone_rules, polling_interval_rules)
    for kind in notes_of(module)
}
"""All kinds of Notes about readers, keyed by name."""


def dump_account(account: ReaderAccount) -> bytes:
    """Return an account as a line of JSON."""
    values = msgspec.to_builtins(account, enc_hook=lambda kind: kind.id())
    for feed in values["feeds"]:
        for name, finding in feed["findings"].items():
            if KINDS[name].level is Level.GOOD:
                finding["evidence"] = []
    # A User-Agent may contain half of a surrogate pair, which the encoder of msgspec refuses.
    return json.dumps(values).encode() + b"\n"


def load_account(line: bytes) -> ReaderAccount:
    """Parse a line of JSON and return the account. Raises ValueError, LookupError, TypeError or ValidationError if the
    line is invalid."""
    values = json.loads(line)
    for feed in values["feeds"]:
        feed["findings"] = {KINDS[name]: finding for name, finding in feed["findings"].items()}
    return msgspec.convert(values, ReaderAccount)

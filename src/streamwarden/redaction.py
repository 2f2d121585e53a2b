"""Redaction: the one place that decides what a secret is, and that hides secrets in what is stored or shown.

A secret is recognized in three ways:

- by its name: the value of a key such as `kafka.sasl.jaas.config`, in a mapping and in text (`password=X`,
  `"token": "X"`, `--password X`, an argument after `--password`);
- by its form: the password in a URL, a bearer token, a private key in PEM;
- by its value: what this process has read as a secret before, such as the password of a connection (`remember`).

Redacting twice gives the same as redacting once. A redacted value never becomes a value again: `restored` takes the
real one from the stream's file, and a driver is not launched with a redacted value (`is_redacted`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import NoneType
from typing import Any, Final

REDACTED: Final = "*********(redacted)"
"""The replacement of a secret. Spark writes the same text."""

NAMES: Final = (
    r"secret(?!KeyRef)|password|passwd|passphrase|\bpwd\b|token|credential|authorization|jaas[._-]?config|"
    r"basic[._-]?auth|(?:access|private|account|api|keystore)[._-]?key\b"
)
"""A name of which a part matches this is the name of a secret. Spark reads it too (`spark.redaction.regex`)."""

SHORTEST: Final = 6
LONGEST_WORD: Final = 15
"""A remembered secret has at least this many characters, and more than this many if all of them are letters: any other
might hide an ordinary word, or a part of a path."""

_NAME: Final = re.compile(NAMES, re.IGNORECASE)
_HARMLESS: Final = ("file", "path", "provider")
"""How a name ends that says where a secret is, and not the secret."""

_WORD: Final = rf"(?:{NAMES})[\w.-]{{0,64}}" + "".join(f"(?<!{end})" for end in _HARMLESS)
_VALUE: Final = (
    r"""(?:(")(?:[^"\\\n]|\\.)*|(')(?:[^'\\\n]|\\.)*|(\\")(?:[^"\\\n]|\\[^"\n])*"""  # in quotation marks
    r"""|[^\s,;&"'<>|`\\][^\s,;&"'<>|`]*)"""
)
_FLAG: Final = re.compile(rf"--?[\w.-]{{0,64}}?{_WORD}", re.IGNORECASE)
_NAMED: Final = (
    *("secret", "passw", "passphrase", "pwd", "token", "credential", "authorization", "jaas", "basic"),
    *("access", "private", "account", "api", "keystore"),
)
# Patterns are tried on text that contains one of their words (a log has megabytes). Each repetition is bounded or
# cannot overlap the next part, so that no text takes more than linear time.
_IN_TEXT: Final = tuple(
    (words, [re.compile(pattern, re.IGNORECASE | re.MULTILINE) for pattern in patterns])
    for words, *patterns in (
        (("private key",), r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[\s\S]*?(?=-----END|\Z)"),
        (("@",), r"(://[^\s/:@\"']{0,256}:)(?!\*+@)[^\s/\"']{1,1024}(?=@)"),
        (("bearer",), r"(\bbearer\s)[\w.~+/=-]{8,}"),
        (
            _NAMED,
            rf"({_WORD}[^\S\n]{{0,4}}=[^\S\n]{{0,4}}){_VALUE}",
            rf"({_WORD}\\?[\"'][^\S\n]{{0,4}}[=:][^\S\n]{{0,4}}){_VALUE}",
            rf"(^[^\S\n]{{0,40}}(?:- )?[\w.-]{{0,100}}?{_WORD}:[^\S\n]{{1,4}}){_VALUE}",
            rf"((?<![\w-])--[\w.-]{{0,64}}?{_WORD}[^\S\n]{{1,4}})(?!-){_VALUE}",
        ),
    )
)
_WITHOUT_TEXT: Final = frozenset({int, float, bool, NoneType})
_remembered: set[str] = set()

SHORT: Final = 2000
"""Characters of a text whose redaction is kept for the next time."""


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Whether the value of a setting, an option or a variable of this name is a secret."""
    return _NAME.search(name) is not None and not name.lower().endswith(_HARMLESS)


def remember(*values: str | None) -> None:
    """Redact these values from now on wherever they occur in text of this process, except those that may be a word."""
    _remembered.update(value for value in values if value is not None and not _may_be_a_word(value))


def redacted(value: Any) -> Any:
    """JSON-like data without secrets. Numbers and truth values stay, also under the name of a secret."""
    if isinstance(value, str):
        return redacted_text(value)
    if type(value) in _WITHOUT_TEXT:  # nearly always, and quicker than to ask whether it is a mapping
        return value
    if isinstance(value, Mapping):
        return {key: _hidden(item) if is_secret(str(key)) else redacted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if _WITHOUT_TEXT.issuperset(map(type, value)):
            return value
        items = _arguments(value)
        return list(items) if isinstance(value, list) else tuple(items)
    return value


def redacted_text(text: str) -> str:
    """`text` without secrets."""
    text = _without_forms(text) if len(text) > SHORT else _short_without_forms(text)
    for value in sorted(_remembered, key=len, reverse=True) if _remembered else ():
        text = text.replace(value, REDACTED)
    return text


def _without_forms(text: str) -> str:
    """`text` without secrets that are recognized by their name or form."""
    lowered = text.lower()
    for words, patterns in _IN_TEXT:
        if any(word in lowered for word in words):
            for pattern in patterns:
                text = pattern.sub(_hide, text)
    return text


_short_without_forms = lru_cache(maxsize=16384)(_without_forms)
"""Pages and API show the same short texts of a thousand streams again and again."""


def redacted_properties(text: str) -> str:
    """The lines `key=value` of a properties file without secrets."""
    return "".join(_property(line) for line in text.splitlines(keepends=True))


def is_redacted(value: Any) -> bool:
    """Whether a redacted value is anywhere in JSON-like data."""
    return any(REDACTED in text for text in _texts(value))


def restored(shown: Any, real: Any) -> Any:
    """`shown` with the values of `real` in place of those that were redacted.

    A value is taken only from the same place, and only if it looks the same when it is redacted. Otherwise it stays
    redacted: `real` is another document by now.
    """
    return _restored(shown, redacted(real), real)


def secrets_of(value: Any) -> list[str]:
    """Each secret of JSON-like data that `redacted` hides, for `remember`."""
    return [secret for pair in zip(_texts(redacted(value)), _texts(value), strict=True) for secret in _between(*pair)]


def _may_be_a_word(value: str) -> bool:
    return len(value) < SHORTEST or (len(value) <= LONGEST_WORD and value.isalpha())


def _hide(match: re.Match[str]) -> str:
    """The text that introduces the secret, with the quotation mark that opens it, then REDACTED."""
    return "".join(part for part in match.groups() if part) + REDACTED


def _hidden(value: Any) -> Any:
    """`value`, which has the name of a secret, with each text redacted. An empty text is not a secret."""
    if isinstance(value, str):
        return REDACTED if value else value
    if isinstance(value, Mapping):
        return {key: _hidden(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(item) for item in value]
    return value


def _arguments(values: Sequence[Any]) -> Iterator[Any]:
    """Items of a list; the one after a flag such as `--password` is its value."""
    flagged = False
    for value in values:
        is_value = flagged and isinstance(value, str) and not value.startswith("--")
        yield _hidden(value) if is_value else redacted(value)
        flagged = isinstance(value, str) and _FLAG.fullmatch(value) is not None


def _property(line: str) -> str:
    key, separator, value = line.rstrip("\n").partition("=")
    if separator and value and is_secret(key):
        return f"{key}={REDACTED}\n"
    return redacted_text(line)


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _between(shown: str, text: str) -> Iterator[str]:
    """The parts of `text` that are redacted in `shown`."""
    before, *rest = shown.split(REDACTED)
    at = len(before)
    for index, after in enumerate(rest, 1):
        end = len(text) - len(after) if index == len(rest) else text.find(after, at)
        if end < at or not (after or index == len(rest)):
            return
        yield text[at:end]
        at = end + len(after)


def _restored(shown: Any, hidden: Any, real: Any) -> Any:
    if isinstance(shown, str):
        return real if shown == hidden and REDACTED in shown else shown
    if isinstance(shown, Mapping) and isinstance(hidden, Mapping):
        return {key: _restored(item, hidden.get(key), real.get(key)) for key, item in shown.items()}
    if isinstance(shown, list | tuple) and isinstance(hidden, list | tuple) and len(shown) == len(hidden):
        return [_restored(*items) for items in zip(shown, hidden, real, strict=True)]
    return shown

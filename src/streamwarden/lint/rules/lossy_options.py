"""SW114: options of a source, or settings of Spark, under which a query loses rows and says nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from streamwarden.errors import InvalidValue
from streamwarden.lint.facts import Facts
from streamwarden.lint.finding import FactOrigin, Finding, Severity
from streamwarden.lint.rule import Rule
from streamwarden.units import DAY, format_duration, parse_duration

OLDEST: Final = 7.0 * DAY
"""Spark's default of `maxFileAge`, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The options of one source of the stream. `options`: by their names in lower case. `path`: its folder, if known.
    `inputs`: the folders of all sources of the job's text."""

    facts: Facts
    options: Mapping[str, str]
    origin: FactOrigin
    where: str
    path: str | None = None
    inputs: tuple[str | None, ...] = ()

    def is_on(self, option: str) -> bool:
        return self.options.get(option, "").strip().lower() == "true"


Found = Iterator[tuple[Severity, str]]


def _latest_first(use: Use) -> Found:
    job, operators = use.facts.job, use.facts.operators() or ()
    if not use.is_on("latestfirst"):
        return
    if job.watermarked or any(operator.by_event_time for operator in operators):
        words = "the newest files move the watermark, so the rows of the older ones come late and are dropped"
        yield Severity.ERROR, words
    elif job.problem or (job.reads_rows is None and not use.facts.all_known):
        yield Severity.UNKNOWN, "with a watermark, the rows of older files come late; whether there is one is not known"


def _clean_source(use: Use) -> Found:
    action = use.options.get("cleansource", "off").strip().lower()
    if action == "off":
        return
    readers = [*use.facts.readers, *(["another source of the job"] if use.inputs.count(use.path) > 1 else [])]
    if readers:
        words = f"it removes files that {', '.join(readers)} may not have read yet"
        yield Severity.ERROR, words
    if use.facts.spec.quarantine is not None:
        yield Severity.WARNING, "the quarantine reads the files of a batch once more, and they may be gone by then"


def _max_file_age(use: Use) -> Found:
    value = use.options.get("maxfileage")
    if value is None:
        return
    try:
        age = parse_duration(value)
    except InvalidValue:
        yield Severity.UNKNOWN, f"{value!r} is not a duration that is understood here"
        return
    if age < OLDEST:
        yield (
            Severity.WARNING,
            f"a file that is more than {format_duration(age)} older than the newest one is never read: so are those "
            "that waited while the stream was down",
        )


def _data_loss(use: Use) -> Found:
    if use.options.get("failondataloss", "true").strip().lower() == "false":
        yield Severity.WARNING, "records that the topic no longer has are skipped without an error"


def _ignored_files(what: str) -> Callable[[Use], Found]:
    def judge(use: Use) -> Found:
        if use.is_on(f"ignore{what}files"):
            yield Severity.WARNING, f"the rows of a {what} file are left out, and the batch commits without them"

    return judge


def _mode(use: Use) -> Found:
    """`read_rows` sets the mode itself."""
    dropped = use.options.get("mode", "").strip().upper() == "DROPMALFORMED"
    if dropped and not (use.origin is FactOrigin.DECLARATION and use.facts.job.reads_rows):
        yield Severity.WARNING, "rows that do not fit the schema are dropped, and nothing counts them"


def _starting(option: str) -> Callable[[Use], Found]:
    def judge(use: Use) -> Found:
        value = use.options.get(option)
        if value is None or value.strip().lower() == "earliest":
            return
        checkpoint = use.facts.checkpoint
        if checkpoint is not None and checkpoint.committed is not None:
            yield Severity.WARNING, "only the first batch of a checkpoint reads it, so now it changes nothing"
        if value.strip().lower() == "latest":
            yield Severity.WARNING, "with a new checkpoint, the records that the topic has are skipped"

    return judge


def _file_name_only(use: Use) -> Found:
    if use.is_on("filenameonly"):
        yield Severity.WARNING, "a file is never read if one of the same name was read, in whatever folder"


@dataclass(frozen=True, slots=True)
class LossyOption:
    """An option, and what it loses in a use of a source."""

    name: str
    judge: Callable[[Use], Found]


OPTIONS: Final = (
    LossyOption("latestFirst", _latest_first),
    LossyOption("cleanSource", _clean_source),
    LossyOption("maxFileAge", _max_file_age),
    LossyOption("fileNameOnly", _file_name_only),
    LossyOption("ignoreCorruptFiles", _ignored_files("corrupt")),
    LossyOption("ignoreMissingFiles", _ignored_files("missing")),
    LossyOption("mode", _mode),
    LossyOption("failOnDataLoss", _data_loss),
    LossyOption("startingOffsets", _starting("startingoffsets")),
    LossyOption("startingTimestamp", _starting("startingtimestamp")),
    LossyOption("startingOffsetsByTimestamp", _starting("startingoffsetsbytimestamp")),
)

SETTINGS: Final[Mapping[str, tuple[str, str]]] = {
    "spark.sql.files.ignoreCorruptFiles": ("true", "the rows of a corrupt file are left out, and the batch commits"),
    "spark.sql.files.ignoreMissingFiles": ("true", "the rows of a missing file are left out, and the batch commits"),
    "spark.sql.streaming.multipleWatermarkPolicy": (
        "max",
        "the faster source moves the watermark, so the rows of the slower one come late and are dropped",
    ),
}
"""Setting -> the value under which rows are lost, and which."""


def judge(facts: Facts) -> Iterable[Finding]:
    """One finding for each option of each source, and for each setting, that loses rows."""
    for use in _uses(facts):
        for option in OPTIONS:
            for severity, why in option.judge(use):
                value = use.options.get(option.name.lower())
                yield RULE.finding(facts, f"{option.name}: {value}: {why}", use.origin, use.where, severity=severity)
    for key, (value, why) in SETTINGS.items():
        if facts.conf.get(key, "").strip().lower() == value:
            observed = f"{key} is {facts.conf[key]}: {why}"
            yield RULE.finding(facts, observed, FactOrigin.DECLARATION, f"{facts.file}: spark.conf")


def _uses(facts: Facts) -> Iterator[Use]:
    declared = {name.lower(): str(value) for name, value in facts.spec.source.options.items()}
    yield Use(facts=facts, options=declared, origin=FactOrigin.DECLARATION, where=f"{facts.file}: source.options")
    folders = tuple(given.path for given in facts.job.inputs)
    for given in facts.job.inputs:
        where = f"{facts.job.path}:{given.line}"
        yield Use(
            facts=facts,
            options=given.options,
            origin=FactOrigin.JOB,
            where=where,
            path=given.path,
            inputs=folders if given.path else (),
        )


RULE = Rule(
    id="SW114",
    title="Option that loses rows",
    severity=Severity.WARNING,
    reason=(
        "Some options let a query leave rows out, and neither an error nor a count says so. Each has its use, and each "
        "has lost rows that nobody missed for weeks."
    ),
    reads=(
        "`source.options` in the stream's file, the options of each `readStream` in the job's text (constants only), "
        "and Spark's settings. "
        + ", ".join(f"`{option.name}`" for option in OPTIONS)
        + ", and the settings "
        + ", ".join(f"`{key}`" for key in SETTINGS)
        + ". `latestFirst` counts with a watermark; `cleanSource` where another stream or source reads the folder, or "
        f"the stream has a quarantine; `maxFileAge` below Spark's default of {format_duration(OLDEST)}; `mode` as "
        "DROPMALFORMED, except in `source.options` of a job that uses `read_rows`, which sets the mode itself; an "
        "option of the beginning where it skips records, or where the checkpoint has a batch and ignores it. Not read: "
        "options that the job computes."
    ),
    remedy=(
        "Remove the option. If the loss is wanted, say so in the stream's description; `failOnDataLoss: false` is for "
        "one start, after a loss that a person has accepted."
    ),
    judge=judge,
)

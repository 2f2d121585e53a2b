"""Compares the values in a script's text with the declarations of its stream's file, before anything starts."""

from streamwarden.lifecycle.script_queries import Contradiction, input_contradictions, query_contradictions
from streamwarden.lint.facts import JobFacts
from streamwarden.stream.spec import StreamSpec


def contradictions(spec: StreamSpec, job: JobFacts) -> tuple[Contradiction, ...]:
    """The values in the script's text that a driver would refuse, or that the checks and drills would not know.

    None for a module with `build`: it gets its places from the stream's file.
    """
    if job.module or not job.parsed:
        return ()
    single = not spec.queries and job.queries == 1
    of_queries = (
        contradiction
        for query in job.named
        for contradiction in query_contradictions(spec, query, single=single, trigger_written=spec.trigger.written)
    )
    return (*of_queries, *input_contradictions(spec, job.inputs))

"""Reads a job: follows its frames from the source to the result, by its text alone.

The file is parsed and never run. Assignments, calls of its own functions and of modules beside it, method chains and
both sides of an `if` are followed; what cannot be (a frame that a foreign function made, `exec`) is said to be unknown
rather than guessed.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from streamwarden.lint.facts import JobFacts
from streamwarden.lint.frames import ON_FRAMES, Frames
from streamwarden.lint.values import (
    Class,
    Constant,
    Declared,
    Frame,
    Function,
    Grouped,
    Instance,
    Many,
    Reader,
    Session,
    Unknown,
    Value,
    Writer,
    can_start,
    mentions,
)
from streamwarden.stream import StreamSpec

Siblings = Callable[[str], str | None]
"""Name of a module -> the text of the file beside the job, None if there is none."""

_DEEP: Final = 20
"""Calls within calls that are followed."""

WINDOWS: Final = frozenset({"window", "session_window"})
"""Functions that make a column of their name, which carries the watermark of what they are made of."""

_STATE: Final = re.compile(r"^\s*#*\s*State\b.*(:|$)", re.MULTILINE)
_OURS: Final = "streamwarden.spark"
"""Where `read_rows` and its like are: functions that give a streaming frame."""

_SESSIONS: Final = frozenset({"getOrCreate", "newSession", "getActiveSession"})
"""Methods that give a session."""

_KNOWN: Final = frozenset({"pyspark", "streamwarden"})
"""Packages whose functions start no query unless the job says so."""


def read_job(path: str, text: str, spec: StreamSpec, siblings: Siblings = lambda name: None) -> JobFacts:
    """What the text of a job says of its state and its sinks. Never raises: what it cannot read it says."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        return JobFacts(path=path, problem=f"it cannot be parsed: {error}", parsed=False)
    module = any(isinstance(node, ast.FunctionDef) and node.name == "build" for node in tree.body)
    reader = _JobReader(spec, siblings)
    try:
        result = reader.run(tree)
    except Exception as error:  # any Python may stand in a job: what was not foreseen must not end a DAG file
        problem = f"it could not be followed: {type(error).__name__}: {error}"
        return JobFacts(path=path, problem=problem, module=module, queries=1 if module else None)
    found = reader.frames
    whole = bool(found.writers) or (isinstance(result, Frame) and result.known)
    return JobFacts(
        path=path,
        followed=whole and not found.lost,
        documented=_STATE.search(ast.get_docstring(tree) or "") is not None,
        module=module,
        queries=1 if module else found.started.count or None,
        operators=tuple(found.operators.values()),
        sinks=tuple(found.sinks()),
    )


class _JobReader:
    """Evaluates statements and expressions of one job into `Value`s."""

    def __init__(self, spec: StreamSpec, siblings: Siblings) -> None:
        self.frames = Frames(spec, self._call)
        self._spec = spec
        self._siblings = siblings
        self._modules: dict[str, dict[str, Value]] = {}
        self._depth = 0
        self._harmless = set(dir(builtins))

    def run(self, tree: ast.Module) -> Value:
        """The job's result: what `build` returns, or nothing for a script, which starts its own query."""
        scope: dict[str, Value] = {"__name__": Constant("__main__")}
        self._body(tree.body, scope)
        build = scope.get("build")
        if isinstance(build, Function):
            return self._call(build, [Unknown(), Declared(self._spec)], {}) or Unknown()
        return Unknown()

    # Statements

    def _body(self, body: Sequence[ast.stmt], scope: dict[str, Value]) -> Value | None:
        """The value of the first `return` that gives one; a frame is preferred to anything else."""
        result: Value | None = None
        for statement in body:
            value = self._statement(statement, scope)
            if value is not None and (result is None or not isinstance(result, Frame | Writer)):
                result = value
        return result

    def _statement(self, node: ast.stmt, scope: dict[str, Value]) -> Value | None:
        match node:
            case ast.FunctionDef():
                scope[node.name] = Function(node, scope)
            case ast.ClassDef():
                scope[node.name] = Class(node, scope)
            case ast.Import() | ast.ImportFrom():
                self._import(node, scope)
            case ast.Assign():
                value = self._expression(node.value, scope)
                for target in node.targets:
                    _bind(target, value, scope)
            case ast.AnnAssign(value=ast.expr() as given):
                _bind(node.target, self._expression(given, scope), scope)
            case ast.Return(value=ast.expr() as given):
                return self._expression(given, scope)
            case ast.Expr():
                self._expression(node.value, scope)
            case ast.If():
                return self._branches(node, scope)
            case ast.For():
                times = self._turns(self._expression(node.iter, scope))
                with self.frames.started.repeated(times):
                    found = self._body(node.body, scope)
                return found if found is not None else self._body(node.orelse, scope)
            case ast.While():
                with self.frames.started.repeated(None):
                    found = self._body(node.body, scope)
                return found if found is not None else self._body(node.orelse, scope)
            case ast.With():
                return self._body(node.body, scope)
            case ast.Try():
                for handler in node.handlers:
                    self._maybe(handler.body, scope)
                return self._body([*node.body, *node.orelse, *node.finalbody], scope)
            case ast.Match():
                for each in node.cases:
                    self._maybe(each.body, scope)
            case _:
                pass
        return None

    def _maybe(self, body: Sequence[ast.stmt], scope: dict[str, Value]) -> None:
        """Statements that only some runs reach: of these, it matters whether they start a query."""
        with self.frames.aside(), self.frames.started.repeated(None):
            self._body(body, dict(scope))

    def _branches(self, node: ast.If, scope: dict[str, Value]) -> Value | None:
        self._expression(node.test, scope)
        with self.frames.started.branches(sure=_is_main(node.test)) as other:
            first = self._body(node.body, scope)
            other()
            second = self._body(node.orelse, scope)
        return first if first is not None else second

    def _turns(self, over: Value) -> int | None:
        """How often a loop over this goes round; None where only a run knows."""
        return len(over.items) if isinstance(over, Many) else None

    def _import(self, node: ast.Import | ast.ImportFrom, scope: dict[str, Value]) -> None:
        package = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            if (package or alias.name).partition(".")[0] in _KNOWN:
                self._harmless.add(alias.asname or alias.name.partition(".")[0])
        if isinstance(node, ast.Import) or node.module is None:
            return
        module = self._module(node.module)
        for alias in node.names:
            name = alias.asname or alias.name
            if node.module.startswith(_OURS) and alias.name.startswith("read"):
                scope[name] = Reader(streaming=True)
            elif alias.name in module:
                scope[name] = module[alias.name]

    def _module(self, name: str) -> Mapping[str, Value]:
        if name not in self._modules:
            scope = self._modules[name] = {}
            text = self._siblings(name)
            if text is not None:
                try:
                    self._body(ast.parse(text).body, scope)
                except (SyntaxError, ValueError):
                    scope.clear()
        return self._modules[name]

    # Expressions

    def _expression(self, node: ast.expr, scope: Mapping[str, Value]) -> Value:
        match node:
            case ast.Constant():
                return Constant(node.value)
            case ast.Name():
                return scope.get(node.id, Unknown())
            case ast.Tuple() | ast.List():
                return Many(tuple(self._expression(item, scope) for item in node.elts))
            case ast.Starred():
                return self._expression(node.value, scope)
            case ast.Lambda():
                return Function(node, scope)
            case ast.IfExp():
                found = [self._expression(each, scope) for each in (node.body, node.orelse)]
                return next((each for each in found if isinstance(each, Frame | Grouped)), found[0])
            case ast.Attribute():
                return self._attribute(node, scope)
            case ast.Call():
                return self._called(node, scope)
            case ast.NamedExpr():
                return self._expression(node.value, scope)
            case ast.Subscript():
                return self._subscript(node, scope)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return self._comprehension(node, scope)
            case _:
                inner = [
                    self._expression(each, scope) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)
                ]
                return Unknown(frozenset().union(*map(mentions, inner)))

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: Mapping[str, Value]) -> Value:
        over = [self._expression(each.iter, scope) for each in node.generators]
        certain = len(over) == 1 and not node.generators[0].ifs
        with self.frames.started.repeated(self._turns(over[0]) if certain else None):
            return Unknown(mentions(self._expression(node.elt, scope)))

    def _subscript(self, node: ast.Subscript, scope: Mapping[str, Value]) -> Value:
        of, index = self._expression(node.value, scope), self._expression(node.slice, scope)
        if isinstance(of, Many) and isinstance(index, Constant) and isinstance(index.value, int):
            return of.items[index.value] if -len(of.items) <= index.value < len(of.items) else Unknown()
        return Unknown(mentions(of) | mentions(index))

    def _attribute(self, node: ast.Attribute, scope: Mapping[str, Value]) -> Value:
        of = self._expression(node.value, scope)
        match of:
            case Declared(thing) if hasattr(thing, node.attr):
                value = getattr(thing, node.attr)
                return Declared(value) if hasattr(value, "__dataclass_fields__") else Constant(value)
            case Frame() if node.attr == "writeStream":
                return self.frames.writer(of, node.lineno)
            case Unknown() if node.attr == "writeStream":
                return self.frames.writer(Frame(streaming=True, known=False), node.lineno)
            case Frame() | Many() | Constant():
                return Unknown(frozenset({node.attr}))
            case Instance(_, fields) if node.attr in fields:
                return fields[node.attr]
            case _ if node.attr in ("readStream", "read") and not isinstance(of, Reader):
                return Reader(streaming=node.attr == "readStream")
            case _:
                return Unknown(mentions(of) | {node.attr})

    def _called(self, node: ast.Call, scope: Mapping[str, Value]) -> Value:
        given = [self._expression(each, scope) for each in node.args]
        named = {each.arg: self._expression(each.value, scope) for each in node.keywords if each.arg}
        if isinstance(node.func, ast.Attribute):
            of = self._expression(node.func.value, scope)
            name = node.func.attr
            if isinstance(of, Unknown) and name in ON_FRAMES:
                of = Frame(streaming=None, known=False)
            if isinstance(of, Frame | Grouped | Writer | Reader):
                return self.frames.method(of, name, given, named, node.func.end_lineno or node.lineno)
            if name in WINDOWS:
                return Unknown(frozenset().union(*map(mentions, given)), name)
            if name == "alias" and given:
                given_name = given[0].value if isinstance(given[0], Constant) else None
                return Unknown(mentions(of), given_name if isinstance(given_name, str) else None)
            if name in _SESSIONS:
                return Session()
            if isinstance(of, Instance):
                self._method(of, name)
            if not isinstance(of, Session):
                self._hand_over(node.func, given, named)
            return self._foreign([of, *given, *named.values()])
        function = self._expression(node.func, scope)
        match function:
            case Function():
                result = self._call(function, given, named)
                return self._foreign([*given, *named.values()]) if result is None else result
            case Class():
                made = Instance(function, self._fields(function, given, named))
                if _method_of(function, "__init__") is not None:
                    self._method(made, "__init__")
                return made
            case Reader():
                return Frame(streaming=function.streaming)  # read_rows and its like, called by their names
            case _:
                self._hand_over(node.func, given, named)
                found = self._foreign([*given, *named.values()])
                name = node.func.id if isinstance(node.func, ast.Name) else ""
                return Unknown(mentions(found), name) if name in WINDOWS else found

    def _foreign(self, values: Sequence[Value]) -> Value:
        """What a function that is not in sight makes of `values`: of a frame, a frame of which less is known."""
        frames = [each for each in values if isinstance(each, Frame)]
        if frames:
            return Frame(frames[0].streaming, known=False, watermarks=frames[0].watermarks)
        return Unknown(frozenset().union(*map(mentions, values)))

    def _hand_over(self, function: ast.expr, given: Sequence[Value], named: Mapping[str, Value]) -> None:
        """A function that is not in sight gets these values: with a session or a frame it may start a query, and it may
        call a function of the job any number of times."""
        if _root(function) in self._harmless:
            return
        values = [*given, *named.values()]
        if any(map(can_start, values)) or isinstance(named.get("target"), Unknown):
            self.frames.started.lose()
        for each in values:
            if isinstance(each, Function):
                self._may_call(each)

    def _method(self, of: Instance, name: str) -> None:
        """A method of the job's own class is called, whose result is not followed."""
        method = _method_of(of.of, name)
        if method is not None:
            self._may_call(Function(method, of.of.home))
        elif can_start(of):
            self.frames.started.lose()

    def _may_call(self, function: Function) -> None:
        with self.frames.aside(), self.frames.started.repeated(None):
            self._call(function, [], {})

    def _call(self, function: Function, given: Sequence[Value], named: Mapping[str, Value]) -> Value | None:
        """The function's result; None if it returns nothing, or calls go too deep."""
        if self._depth >= _DEEP:
            self.frames.started.lose()
            return None
        node = function.node
        scope = dict(function.home) | _bound(node.args, given, named)
        self._depth += 1
        try:
            if isinstance(node, ast.Lambda):
                return self._expression(node.body, scope)
            return self._body(node.body, scope)
        finally:
            self._depth -= 1

    def _fields(self, of: Class, given: Sequence[Value], named: Mapping[str, Value]) -> dict[str, Value]:
        """`self.NAME = argument` of the class's `__init__`."""
        init = _method_of(of, "__init__")
        if init is None:
            return {}
        scope = dict(of.home) | _bound(init.args, [Unknown(), *given], named)
        fields = {}
        for each in init.body:
            target = each.targets[0] if isinstance(each, ast.Assign) else getattr(each, "target", None)
            value = getattr(each, "value", None)
            if isinstance(target, ast.Attribute) and isinstance(value, ast.expr):
                fields[target.attr] = self._expression(value, scope)
        return fields


def _method_of(of: Class, name: str) -> ast.FunctionDef | None:
    return next((each for each in of.node.body if isinstance(each, ast.FunctionDef) and each.name == name), None)


def _root(node: ast.expr) -> str:
    """The name that an expression like `a.b(…).c` begins with."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_main(test: ast.expr) -> bool:
    """`__name__ == "__main__"`, which holds for every script."""
    return "__name__" in {each.id for each in ast.walk(test) if isinstance(each, ast.Name)}


def _bound(arguments: ast.arguments, given: Sequence[Value], named: Mapping[str, Value]) -> dict[str, Value]:
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    defaults = dict(zip(names[::-1], arguments.defaults[::-1], strict=False))
    found: dict[str, Value] = dict.fromkeys(names, Unknown())
    found |= {name: Constant(node.value) for name, node in defaults.items() if isinstance(node, ast.Constant)}
    return found | dict(zip(names, given, strict=False)) | dict(named)


def _bind(target: ast.expr, value: Value, scope: dict[str, Value]) -> None:
    if isinstance(target, ast.Name):
        scope[target.id] = value
    elif isinstance(target, ast.Tuple | ast.List):
        items = value.items if isinstance(value, Many) else ()
        for index, each in enumerate(target.elts):
            _bind(each, items[index] if index < len(items) else Unknown(), scope)

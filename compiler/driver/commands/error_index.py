"""The error index: every kind of problem on one Markdown page, made from the classes that own them."""

from __future__ import annotations

from einc.checking.edits import apply, certain
from einc.driver.commands.kinds import problems_of
from einc.errors.report import Problem, Source, render

FAMILIES = {
    "01": "Syntax", "02": "Names and scripts", "03": "Balance of indices", "04": "Sets, extents, data",
    "05": "Domains, causality, isolation", "06": "Index expressions", "07": "State and sets", "08": "Documents",
    "09": "Lints",
}
_WIDEST = 100  # columns of an example's line; one that is longer is not meant to be read

_HEAD = """# What einc says

Every problem that `einc check` tells has a code, and every code a page: `einc explain E0306`. This is all of them, each
with the smallest text that has it, what einc says of that text, and what `einc check --fix` makes of it where there is
one certain way out. Codes that begin with W are warnings, which `--strict` refuses. `einc explain --markdown` writes
this page from the compiler's own classes and their examples.
"""


def index() -> str:
    """The page of all errors and warnings as Markdown: a list of contents by family, then a section for each."""
    kinds = [Problem.registry[code] for code in sorted(Problem.registry, key=lambda code: (code[1:], code))]
    families = {family: [kind for kind in kinds if kind.code[1:3] == family] for family in FAMILIES}
    contents = (f"**{FAMILIES[family]}**\n\n" + "".join(f"- [{x.code}](#{x.code.lower()}) {x.title}\n" for x in found)
                for family, found in families.items() if found)
    sections = (f"## {FAMILIES[family]}\n\n" + "\n".join(map(_entry, found)) for family, found in families.items()
                if found)
    return "\n".join([_HEAD, *contents, *sections]).rstrip() + "\n"


def rule(kind: type[Problem]) -> str:
    """Where the rule stands that a text with this problem breaks."""
    return f"grammar/README.md §{kind.section}"


def _entry(kind: type[Problem]) -> str:
    """One kind: its title, its explanation, its example, and what comes of that."""
    out = [f'<a id="{kind.code.lower()}"></a>', "", f"### {kind.code}: {kind.title}", "", kind.explanation, "",
           f"The rule: [{rule(kind)}](../grammar/README.md).", ""]
    if not kind.example:
        return "\n".join(out)
    name = "ein" if kind.example_name.endswith(".ein") else "markdown"
    out += [_fenced(_shown(kind.example), name), ""]
    problems = problems_of(kind)
    if problems:
        out += [_fenced(_shown("\n".join(render(p).rstrip() for p in problems)), "text"), ""]
    if edits := certain(problems, kind.example_name):
        fixed = apply(Source(kind.example_name, kind.example), edits)
        out += ["`einc check --fix` makes of it", "", _fenced(_shown(fixed), name), ""]
    return "\n".join(out)


def _shown(text: str) -> str:
    return "\n".join(line if len(line) <= _WIDEST + 40 else line[:_WIDEST] + "…" for line in text.rstrip().splitlines())


def _fenced(text: str, language: str) -> str:
    marks = "````" if "```" in text else "```"
    return f"{marks}{language}\n{text}\n{marks}"

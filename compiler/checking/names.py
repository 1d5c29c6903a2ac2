"""Names: a base with accents, primes and labels, and what Python calls it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from einc import syntax as s
from einc.spelling import GREEK

_LATIN = {symbol: name for name, symbol in reversed(GREEK.items()) if not name.startswith("var")}
ACCENT_LABELS = frozenset({"hat", "tilde", "bar"})


@dataclass(frozen=True, slots=True)
class Name:
    """`\\widehat K_{Q}`: base K, accent hat, label Q. Labels are part of the name."""

    base: str
    accents: tuple[str, ...] = ()
    primes: int = 0
    lower: tuple[str, ...] = ()
    upper: tuple[str, ...] = ()

    @property
    def stem(self) -> Name:
        """The name without its labels."""
        return replace(self, lower=(), upper=())

    @property
    def labels(self) -> frozenset[str]:
        return frozenset({*self.lower, *self.upper})

    @property
    def python(self) -> str:
        primes = {0: (), 1: ("prime",)}.get(self.primes, (f"prime{self.primes}",))
        text = "_".join((_LATIN.get(self.base, self.base), *self.accents, *primes, *self.lower, *self.upper))
        return "".join(_LATIN.get(c, c) if not (c.isascii() and (c.isalnum() or c == "_")) else c for c in text)

    @property
    def text(self) -> str:
        """As the language writes it in Unicode: `K_hat`, `W_Q`, `H''`."""
        accents = "".join(f"_{a}" for a in self.accents if a != "cal")
        base = {("cal", "L"): "ℒ"}.get((*self.accents[:1], self.base), self.base)
        lower = "".join(f"_{x}" if len(x) > 1 or not x.isalpha() else f"_{{{x}}}" for x in self.lower)
        return base + "'" * self.primes + accents + lower + "".join(f"^{{\\text{{{x}}}}}" for x in self.upper)


def head(node: s.Expression) -> tuple[Name, tuple[s.Script, ...]] | None:
    """The name at the head of a word, with the scripts that are not certainly labels; None for what has no name."""
    match node:
        case s.Word(text):
            return Name(text), ()
        case s.Scripted(s.Word(text), accents, scripts):
            name, rest = Name(text, accents), []
            for script in scripts:
                match script.kind:
                    case "prime":
                        name = replace(name, primes=name.primes + len(script.text))
                    case "label_lower" if script.text in ACCENT_LABELS and not name.lower:
                        name = replace(name, accents=(*name.accents, script.text))
                    case "label_lower":
                        name = replace(name, lower=(*name.lower, script.text))
                    case "label_upper":
                        name = replace(name, upper=(*name.upper, script.text))
                    case _:
                        rest.append(script)
            return name, tuple(rest)
    return None


def size_name(node: s.Expression) -> str | None:
    """`d_k`, `d_{\\text{model}}`, `T`: an extent's name, read whole; None where the node is no such name."""
    found = head(node)
    if found is None or found[0].accents or found[0].primes:
        return None
    name, scripts = found
    parts = [name.python]
    for script in scripts:
        match script:
            case s.Script("lower", s.Word(text)) | s.Script("lower", s.Group("{", "}", (s.Word(text),))):
                parts.append(_LATIN.get(text, text))
            case s.Script("lower", s.Number(text)) | s.Script("lower", s.Group("{", "}", (s.Number(text),))):
                parts.append(text)
            case _:
                return None
    return "_".join(parts)


def index_name(node: s.Expression) -> str | None:
    """`t`, `s'`, `ρ`: the name of an index; None for anything else."""
    found = head(node)
    if found is None or found[1] or found[0].accents or found[0].labels:
        return None
    return found[0].base + "'" * found[0].primes

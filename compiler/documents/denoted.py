r"""Signs and functions of which the words of a document say what they denote: "we write $\cdot$ for the Hadamard
product", "$\mathrm{ReLU}$ is the leaky ReLU". Where the words are more or others than the usual names of the sign, no
equation with it is read.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from einc.checking.matrices.shapes import parts
from einc.documents.document import Document, Formula, Macro
from einc.documents.named import Parse
from einc.documents.said import Said
from einc.documents.signs import ALTERING, SIGNS, Sign
from einc.documents.stops import around, denied, limited, sentences
from einc.errors.problems import OpenReading
from einc.errors.report import Help, Problem, Span
from einc.syntax import tree as s

_NEUTRAL = frozenset("""
    the a an of and or two three its their any each every all both in on by to from for at be as is are it this
    that operator operation function symbol sign usual ordinary standard conventional regular common familiar
    well known here always again just simply also over along across across between with respect applied acting
    rows row columns column rowwise columnwise dimension feature features last axis keys key tokens token
    positions position sequence vector vectors matrices tensors tensor scalar scalars real numbers number paper
    throughout one ones same shape size argument arguments corresponding we our
""".split())  # noqa: SIM905, as a text they read better
_FORMULA = re.compile(r"(?:\$|\\\()(?P<inner>[^$\n]{1,60}?)(?:\$|\\\))")
_DETERMINED = r"(?:the|an?|our|not)\b"
_OPERATION = r"(?:\w[\w-]*\s+){0,4}(?:product|multiplication|convolution|composition|operation|sum|division)\b"
_SAYS = re.compile(
    r"(?:,[^,.]{1,40},)?\W*(?:(?:always|here|will|shall|now|then|simply|throughout|just|both|all)\s+)*(?:"
    r"denot(?:es?|ing)|means?\b|meaning|stands?\s+for|represents?|representing|refers?\s+to|we\s+(?:mean|denote|understand)"
    r"|to\s+(?:denote|mean|represent|stand\s+for)|(?:is|are|be)\s+(?:defined|understood|meant|taken|written)\s+"
    r"(?:as|for|to\s+(?:be|mean|denote))|(?:is|are|be)\s+used\s+(?:to\s+(?:mean|denote)|(?:as|for)\s+(?=the\b|an?\b))"
    r"|(?:(?:is|are)\s+(?:(?:applied|taken|computed|used|evaluated)\s+)?)?(?=with(?:out)?\b)"
    r"|(?=(?:rounds?|truncates?|skips?|omits?|drops?|ignores?|subtracts?)\b|(?:does|do)\s+not\s+(?:subtract|divide|include|add)\b)"
    r"|(?=(?:is|are)\s+(?:replaced|approximated|modified)\b|(?:has|have|uses?)\s+(?:an?\s+)?(?:temperature|slope|base)\b)"
    r"|(?:is|are)\s+(?:just\s+|simply\s+)?(?:short(?:hand)?|an?\s+abbreviation)\s+for"
    rf"|(?:is|are\s+(?!common\b))\s*(?=(?:{ALTERING['before']})\b)|(?:has|have)\s+(?=(?:slope|base)\b)"
    r"|(?:runs?|ranges?|goes|go|is|are)\s+over\b|(?:is|are)(?=\s+\$)"
    rf"|be(?=\s+{_DETERMINED})|(?:is|are)(?=\s+(?:always\s+)?{_DETERMINED})|(?:is|be)\s+(?={_OPERATION}))\s*", re.I)
_IS = re.compile(r"\W*(?:is|are)\s+(?P<noun>[A-Za-z]+(?:-?wise)?)", re.I)
_AND = re.compile(r"\band\s+\W*\Z", re.I)
_JOINED = re.compile(r"(?:,|,?\s+and|,?\s+or)\s+")
_FOR = re.compile(r"\W*(?:for|as|to\s+be)\s+", re.I)
_VERB = re.compile(r"\b(?:writ\w+|set|let|take|define|us(?:e|es|ed|ing)|denot\w+|mean\w*|symbol|sign|represent\w*"
                   r"|express\w*)\b", re.I)
# What a sentence says that begins with the name of an operation: "Sums are over even indices." What it costs, what it
# is good for and which properties it has are other things.
_PROPERTY = (r"(?:[a-z]+ly\s+)?(?:comput|perform|implement|accumulat|fus|don|cheap|expens|fast|slow|cost|need|use|bound"
             r"|hard|efficien|parallel|also|import|require|large|small|well|optimi|monoton|concave|convex|smooth|contin"
             r"|differentiable|omit|commut|associat|distribut|linear|undefined|invertible|clear|dominat|non-?negative|positive|exact|stable)\w*")
_CONVENTION = re.compile(rf"\W*(?:in\s+this\s+\w+\s+)?(?:is|are|be)\s+(?!{_PROPERTY})", re.I)
_BEGINS = re.compile(r"\W*(?:(?:all|the|here|throughout|where|in)\W+)*\Z", re.I)
_APPROXIMATED = re.compile(r"\b(?P<how>\w+\s+(?:approximation|variant|version))\s+(?:of|to)\s+(?:the\s+)?\W*\Z")
# Another function or operation of that name: "the base-2 logarithm", and what the grammar lists.
_ALTERED = re.compile(rf"\b(?:the|an?|all)\s+(?P<how>(?:base[\s-]+\w+|{ALTERING['before']})\s+)\Z", re.I)
# What is done to it: "is clipped to", "divides by the variance", "the denominator of it has", "after squaring".
_DONE = re.compile(r"\s*(?=(?:before|after)\s+\w+ing\b)", re.I)
_DOES = re.compile(r"\W*(?:divides|normali[sz]es|uses|keeps|takes|scales|adds|multiplies|excludes|skips"
                   r"|rounds|omits)\s+", re.I)
_PART = re.compile(rf"\b(?P<how>(?:{ALTERING['parts']})\s+(?:of|in)\s+(?:the\s+)?)\Z", re.I)
_HAS = re.compile(r"\W*(?:has|have)", re.I)
_BEFORE = re.compile(rf"\b(?:to|of|on|over)\s+(?:the\s+|all\s+)?(?P<how>(?:{ALTERING['changed']})\s+)\Z", re.I)
_PAIRS = re.compile(r"\W*?(?:\$[^$]{1,9}\$\s+)?(?:runs?|ranges?|is|are|normali[sz]es)\s+(?:over|in|across)\s+"
                    r"(?=(?:all\s+but|pairs|groups|blocks|chunks|halves|windows|odd|even)\b)", re.I)
_ALGEBRA = re.compile(rf"\b(?:(?:{ALTERING['algebras']})\b)(?P<name>)", re.I)
# "$X$ denotes its own transpose"
_ITSELF = re.compile(r"(?:\$|\\\()(?P<name>[^$\n=]{1,30}?)(?:\$|\\\))\s+(?:is|denotes|means|stands\s+for)\s+its\s+"
                     r"(?:own\s+)?(?:transpose|inverse|square|negative|absolute)\b", re.I)
_PARAMETER = re.compile(rf"(?:\$|\\\()\s*(?:{ALTERING['parameters']})\s*=[^$]*\$")
_READ = re.compile(r"\b(?:read|for)\s+\W*\Z", re.I)
_USED = re.compile(r"\W*(?:is|are)\s+(?:used|meant|applied|taken)\b", re.I)
_SETS = re.compile(r"\b(?:set|add|fix|chang|multipl|scal|shift|subtract|rais|lower)(?:e|es|s|y|ies|ting|ing)?\b"
                   rf"[^.]*\b(?P<how>(?:{ALTERING['parts']}|{ALTERING['settings']})\s+(?:of|in)\s+(?:the\s+|all\s+)?)\W*\Z",
                   re.I)
_SETTING = re.compile(rf"\W*(?=(?:{ALTERING['settings']})\s+(?:is|are|of|=)\s+(?:\w+\s+to\s+)?\W*"
                      r"(?:\d|two\b|ten\b|\\tau))",
                      re.I)
_BASED = re.compile(r"\bbase(?:s\b)?[\s-]+(?:of\s+[^.$]{1,30}\s(?:is|are)\s+)?(?:\$\s*)?(?!e\b|\\math\w+\{\s*e\b)"
                    r"(?:\d+|two|ten|[a-zA-Z]\s*\$|\\\w+\s*\$)|\b(?:binary|dyadic|decimal|common)\s+log|\\log_", re.I)
_CENTRES = re.compile(r"subtracts? (?:the|its|their) means?\b"
                      r"(?: and divides? by (?:the|its|their) standard deviations?)?")
# What a sign alone is said to do: "computes the maximum", "flips rows".
_ACTS = re.compile(r"\W*(?:(?:always|here|also|just|simply)\s+)?(?:(?:computes|performs|gives|returns|yields|acts"
                   r"|applies|takes|indicates|signifies|specifies|designates)\s+|(?=[a-z]{3,}s\b)(?!(?:costs|needs|requires|dominates|has|this|keeps|preserves|allows"
                   r"|makes|entries|signs|always|across|operators|symbols|products)\b))")
_SYMBOL = re.compile(r"\b(?:symbol|sign|notation|operator)\s+(?:for|of)\s+(?P<what>[^.$]{3,60}?)\s+is\s+\Z", re.I)
_WRITTEN = re.compile(r"\b(?:is|are)\s+(?:written|denoted)\s+\Z", re.I)
_ONE = re.compile(r"\$[^$]+\$\s*,?\s+and\s+\Z")
_BOTH = re.compile(r"\s*,?\s+and\s+\$[^$]+\$\s+(?:both\s+)?(?:are|denote|mean|represent|stand\s+for)\s+")
# What names of a sign an article begins, where the sentence names it by a word: "is the hard tanh", "is the sum".
_ARTICLE = re.compile(r"\W*(?:is|are)\s+(?:the|an?|our|not)\b", re.I)
_NOUN = re.compile(r"\b(?:products?|commutator|convolution|composition|maximum|minimum|difference|quotient|average)\b",
                   re.I)
# Of what the formula behind "of" is no definition, nor another meaning.
_ASIDE = re.compile(r"\b(?:derivative|antiderivative|integral|gradient|jacobian|memory|cost|complexity|parameters"
                    r"|time|runtime|mean|range|limit)\s+(?:of|in|for)\s+(?:the\s+|an?\s+)?\W*\Z", re.I)
_FIRST = re.compile(r"(?:.*\b(?:is|denotes)\s+\$[^$]+\$\s*,?\s+and\s+"
                    r"|(?!.*\b(?:other|unlike|instead|previous|earlier|prior|replac\w+|not)\b).*,\s+where\s+)?\W*(?:(?:an?|the|here|where|and|function"
                    r"|activation|nonlinearity|we|define|let|throughout|our|now|in\s+this\s+(?:paper|work|section))\W+)*\Z",
                    re.I | re.S)
_LAST = re.compile(r"\s*(?:,?\s*\b(?:applied|taken|acting|computed|entry|entries|element|elements|component|components"
                   r"|coordinate|wise|entrywise|elementwise|pointwise|componentwise|coordinatewise|to|for|of|on|by|each|every"
                   r"|all|its|the|argument|input|here|throughout|as|usual|well|known)\b-?)*"
                   r"\s*(?:\.(?=[\s)]|\Z)(?!\s+(?:Then|It|Its|Afterwards)\b)|\n[ \t>]*\n|\$\$|\\\[|\\begin\b|\Z"
                   r"|,?\s+and\s+(?:\$[^$]+\$|[A-Z]\w+)\s+(?:is|denotes)\s+\$)", re.I)
_SIZES = re.compile(r"\\mathbb\s*\{?R\}?\s*\^\s*(?:\{(?P<sizes>[^}]*)\}|(?P<size>\w))")
_BY = re.compile(r"\b(?:by|with|as)\s+(?:the\s+)?(?:symbol|sign|operator)?\s*\Z", re.I)
_AHEAD = re.compile(r"\A.*\b(?:denote|write|written|represent|express|use|mean)\b|\A\W*and\b", re.I | re.S)
_OVER = re.compile(r"\W*(?:runs?|ranges?|goes|go|is|are)\s+over\b", re.I)
_CLAUSE = re.compile(r"[,:](?=\s)|\s(?:and|while|whereas)(?:\s*\Z|\s+\$|(?=\s.*\s(?:is|are|denotes?)\s))")
_OPERANDS = re.compile(r"(?:\$|\\\()(?P<cost>(?!))?[^$]*[A-Za-z][^$A-Za-z]*[A-Za-z]")
# What a function is said to be by an expression, and not what it costs.
_VALUE = re.compile(r"(?:\$|\\\()\s*(?P<cost>(?:\\mathcal\s*\{?\s*)?[OΘ]\}?\s*\()?[^$]*[-+*/^({]")
_CITED = re.compile(r"\([^()]*\d{4}[^()]*\)|\[[^\]]{0,30}\]|\\cite\w*\{[^}]*\}|@\w+")


@dataclass(frozen=True)
class Mention:
    """A sign that a sentence names, where, whether in a formula, and whether it names what a function is of."""

    start: int
    end: int
    sign: Sign
    formula: bool
    given: bool = False


@dataclass(frozen=True)
class Telling:
    """What a sentence says that a sign denotes, in these words, which begin at a place of the text; `name` is where the
    sentence has the sign, and `noun` says that the words are a name of it.
    """

    sign: Sign
    words: str
    place: int
    name: tuple[int, int] = (0, 0)
    noun: bool = False

    @property
    def other(self) -> bool:
        """Whether the words are more or others than the usual names of the sign, up to the next comma."""
        clause = _CLAUSE.split(_CITED.sub(" ", self.words), maxsplit=1)[0]
        clause = re.sub(r"\\(?:ell|mathbb|math\w+|text|top)|[${}\\_^]", " ", clause.replace("ℓ", "ell "))
        spelled = re.sub(r"(?<=[a-z])-\s?wise|(?<=[a-z]) by \w+", "wise", _CENTRES.sub("centring", clause.lower()))
        told = re.findall(r"[a-z]{2,}|\d[\d.]*", spelled)
        usual = {*self.sign.usual.lower().split(), *_NEUTRAL}
        said = (_VALUE if self.sign.function else _OPERANDS).match(self.words)
        if "base" in usual and _BASED.search(self.words):
            return True
        nouns = self.sign.nouns.split()
        if self.noun and nouns and not {*told} & {*nouns} and {*told} & {*self.sign.own.split()}:
            return True
        return any(x not in usual for x in told) if said is None else said["cost"] is None


def heard(document: Document) -> Iterator[Span]:
    """The words by which sentences call signs and functions what they are in the language: the usual names of each."""
    for start, sentence in sentences(document.words):
        for told in tellings(sentence, start):
            if not told.other and told.place >= 0:
                usual = {*told.sign.usual.lower().split()}
                end = told.place + len(told.words)
                yield from (Span(document.source, told.place + x.start(), told.place + x.end()) for x in re.finditer(
                    r"[A-Za-z]+", document.words[told.place : end]) if x[0].lower() in usual)


def redefined(document: Document, said: Said, read: Container[Telling]) -> Problem | None:
    """The question of an equation with a sign of which the words of the document, or an equation, say another meaning
    than that of the language; None where there is none, and none for what is `read` as a definition.
    """
    lines = said.sides or (() if said.statement is None else (said.statement,))
    nodes = [x for line in lines for c in line.clauses for x in parts(c.body)]
    if not nodes:
        return None
    macros = {name: x.body for name, (_, meanings) in document.macros.lines.items()
              for x in meanings if isinstance(x, Macro)}
    own = said.span.text
    whole = " ".join((own, *(body for name, body in macros.items() if re.search(rf"\\{name}(?![A-Za-z])", own))))
    beside = any(map(_beside, nodes))
    told = (*_others(document.words), *_defined(document.texts))
    names = {x.span.text.strip() for x in nodes if isinstance(x, s.Word | s.Scripted)}
    computes = any(isinstance(x, s.Product | s.Sum) for x in nodes)
    words = next((words for name, words in _changed(document.words) if name in names or (
        computes and not name)), None) or next((x.words for x in told if x not in read and (
        re.search(x.sign.stands, whole) if x.sign.stands else beside)), None)
    return None if words is None else OpenReading(
        f"the words `{words}` say what a sign of it means, and are not read", said.span,
        helps=(Help("write it with signs of the language, or in a side file"),))


def by_formula(document: Document, parse: Parse,
               functions: Container[str]) -> Iterator[tuple[Telling, Formula, s.Statement | None]]:
    """What sentences say of functions by a formula and nothing else, with that formula: an expression of one letter is
    a definition, "ReLU is $\\max(0, x)$", and an equation for the function speaks for itself.
    """
    for told in _others(document.words) if document.formulas else ():
        found = _FORMULA.match(told.words)
        at = bisect_left(document.formulas, told.place, key=lambda x: x.span.start)
        formula = document.formulas[at] if at < len(document.formulas) else None
        if not told.sign.function or found is None or formula is None or formula.display:
            continue
        if not _defines(document.source.text, told, formula.span.end):
            continue
        for body in parse(formula.span):
            letters = {x.text for x in parts(body) if isinstance(x, s.Word) and len(x.text) == 1 and x.text.islower()}
            letters -= {"e"}
            if (letter := re.search(r"\(\s*([a-z])\s*\)", document.source.text[slice(*told.name)])) is not None:
                letters |= {letter[1]}
            letters = letters if not letters & _sizes(document.source.text) else set()
            if isinstance(body, s.Relation):
                left = body.operands[0]
                if isinstance(left, s.Product) and re.search(told.sign.stands, left.span.text):
                    yield told, formula, None
            elif len(letters) == 1 and (name := _named(document, told, functions)) is not None:
                given = s.Group("(", ")", (s.Word(next(iter(letters)), body.span),), body.span)
                left = s.Product((name, given), ("", ""), name.span)
                clause = s.Clause(s.Relation((left, body), ("=",), body.span), None, body.span)
                yield told, formula, s.Statement("", False, (clause,), (), body.span)


def _defines(text: str, told: Telling, end: int) -> bool:
    """Whether the words around the name of a function and a formula that ends at a place say only that it is that."""
    before, _ = around(text, *told.name)
    end += text[end : end + 1] == "$"
    return _FIRST.fullmatch(before) is not None and _LAST.match(text[end : end + 200]) is not None


@lru_cache(maxsize=8)
def _sizes(text: str) -> frozenset[str]:
    """The letters that a text has for sizes."""
    found = " ".join(x["sizes"] or x["size"] for x in _SIZES.finditer(text))
    return frozenset(re.findall(r"(?<![A-Za-z\\])[a-z](?![A-Za-z])", found))


def _named(document: Document, told: Telling, functions: Container[str]) -> s.Word | None:
    """The name of the function of which a sentence speaks, as the language has it; None where it has none."""
    span = Span(document.source, *told.name)
    written = re.sub(r"\\(?:text|math|operator)\w*", " ", span.text)
    found = [x for word in re.findall(r"[A-Za-z]{2,}", written) for x in (word, word.lower()) if x in functions]
    return s.Word(found[0], span, quoted=True) if found else None


def _beside(node: s.Expression) -> bool:
    """Whether two names or groups stand side by side."""
    return isinstance(node, s.Product) and any(
        o == "" and not isinstance(a, s.Number) for a, o in zip(node.factors, node.operators[1:], strict=False))


@lru_cache(maxsize=8)
def _defined(texts: tuple[str, ...]) -> tuple[Telling, ...]:
    """The signs that one of these equations defines, `A \\odot B = A B^\\top`, with that equation, whose right side
    lacks them."""
    found = list[Telling]()
    for text in texts:
        left, equals, right = text.partition("=")
        found += [Telling(x, text.strip(), 0) for x in SIGNS if equals and x.entries
                  and re.fullmatch(x.alone, left.strip(" :&\\n")) and not re.search(x.stands, right)]
        found += [Telling(x, text.strip(), 0) for x in SIGNS if equals and not x.function and _alone(x, left)
                  and not re.fullmatch(x.alone, right.strip(" .,&\\n"))]
    return tuple(found)


def _alone(sign: Sign, formula: str) -> bool:
    """Whether a formula is a sign with no operands."""
    inner = formula.strip(" :&$")
    return re.fullmatch(sign.alone, inner) is not None and not re.search("[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", inner))


@lru_cache(maxsize=8)
def _others(text: str) -> tuple[Telling, ...]:
    """What the sentences of a text say of signs that is not their meaning in the language."""
    return tuple(x for start, sentence in sentences(text) for x in tellings(sentence, start) if x.other)


@lru_cache(maxsize=8)
def _changed(text: str) -> tuple[tuple[str, str], ...]:
    """The names of which a text says what is done to them, with these words; "" where it is said of all operations."""
    return tuple((x["name"].strip() if x["name"] else "", " ".join(x[0].split())) for _, sentence in sentences(text)
                 for form in (_ALGEBRA, _ITSELF) for x in form.finditer(sentence) if not limited(sentence))


def mentions(sentence: str) -> list[Mention]:
    """The signs that a sentence names, in the order in which they stand."""
    formulas = list(_FORMULA.finditer(sentence))
    found = [Mention(x.start(), x.end(), sign, True) for x in formulas for sign in SIGNS
             if re.fullmatch(sign.alone, x["inner"].strip())]
    inside = [(x.start(), x.end()) for x in formulas]
    found += [Mention(x.start(), x.end(), sign, False, given) for sign in SIGNS
              for given, words in ((False, sign.words), (True, sign.given)) for x in re.finditer(words, sentence)
              if not any(a <= x.start() < b for a, b in inside)]
    return sorted(found, key=lambda x: (x.start, x.end))


def tellings(sentence: str, start: int) -> Iterator[Telling]:
    """What a sentence says that the signs in it denote: behind each, or before it where it is named "by" it."""
    found = mentions(sentence)
    for n, one in enumerate(found):
        before = sentence[max((x.end for x in found[:n]), default=0) : one.start]
        ahead = [x.start for x in found[n + 1 :] if x.formula or _AND.search(sentence[: x.start])]
        joined = next((x for x in found[n + 1 :] if x.formula and _JOINED.fullmatch(sentence[one.end : x.start])), None)
        of_both = _said(joined, sentence, "", ahead) if joined is not None else ()
        said = () if one.given else tuple(_share(one, sentence, x) for x in _said(one, sentence, before, ahead))
        groups = ((True, said), (False, (*_altered(one, sentence), *of_both, *_broad(one, sentence))))
        for noun, words in ((noun, x) for noun, group in groups for x in group):
            place = start + one.end + sentence[one.end :].find(words) if words in sentence[one.end :] else -1
            noun = noun and re.match(r"(?:the|an?|our|its|their)\b", words) is not None
            yield Telling(one.sign, " ".join(words.split()), place, (start + one.start, start + one.end), noun)


def _share(one: Mention, sentence: str, words: str) -> str:
    """What of the words for two signs, "are the matrix and Kronecker products", is for the second of them."""
    return re.split(r"\s+and\s+", words)[-1] if one.formula and _ONE.search(sentence[: one.start]) else words


def _broad(one: Mention, sentence: str) -> Iterator[str]:
    """Whatever is said of a sign with no operands, and of the base of logarithms and exponentials."""
    lead, after, sign = sentence[: one.start], sentence[one.end :], one.sign
    if not one.given and r"\log" in sign.stands + sign.alone and not denied(sentence):
        yield from (x[0] for x in (_BASED.search(sentence),) if x is not None)
    if one.given or sign.function:
        return
    if not one.formula:
        found = _ARTICLE.match(after) if _BEGINS.fullmatch(lead) else None
        words = "" if found is None or denied(found[0]) else after[found.end() :]
        if _NOUN.search(_CLAUSE.split(words, maxsplit=1)[0]):
            yield words
    elif _alone(sign, sentence[one.start : one.end]):
        if (symbol := _SYMBOL.search(lead)) is not None:
            yield symbol["what"]
        elif (written := _WRITTEN.search(lead)) is not None:
            yield re.split(r",", lead[: written.start()])[-1]
        elif (both := _BOTH.match(after)) is not None:
            yield re.split(r"\s+and\s+", after[both.end() :])[0]
        elif (acts := _CONVENTION.match(after) or _ACTS.match(after)) is not None and not (
                denied(lead) or _SAYS.match(after)):
            yield after[acts.end() :]


def _altered(one: Mention, sentence: str) -> Iterator[str]:
    """The words that make another function of one, or say what is done to its value or to what it is of."""
    lead, after = sentence[: one.start], sentence[one.end :]
    used = _VERB.search(lead) is not None or _USED.match(after) is not None
    found = [_APPROXIMATED.search(lead), _ALTERED.search(lead) if used and not one.given else None,
             _PART.search(lead) if _HAS.match(after) else None, _BEFORE.search(lead) if one.given else None,
             None if one.given else _SETS.search(lead)]
    if one.sign.function and not one.given and (value := _PARAMETER.search(sentence)) is not None:
        yield value[0]
    if one.formula and _READ.search(lead) and (read := re.match(r"\W*(?:as|read)\s+", after)) is not None:
        yield after[read.end() :]
    yield from (x["how"] for x in found if x is not None and not denied(lead))
    whole = not one.given and (one.sign.function or _BEGINS.fullmatch(lead))
    of_function = (_DOES.match(after), _PAIRS.match(after)) if whole else ()
    does = (_DONE.match(after), _SETTING.match(after) if one.sign.function else None, *of_function)
    yield from (after[x.end() :] for x in does if x is not None and not denied(lead))


def _said(one: Mention, sentence: str, before: str, ahead: Iterable[int]) -> Iterator[str]:
    """The words that say what a sign denotes, `before` it up to the sign that stands before it, and after it up to the
    next of those that stand `ahead`, but for one that the words begin with.
    """
    lead, after, sign = sentence[: one.start], sentence[one.end :], one.sign
    verb = _VERB.search(lead) is not None
    if sign.function and (_OVER.match(after) or _ASIDE.search(lead)):  # along what it runs is another question
        return
    says = _SAYS.match(after) or _IS.match(after)
    says = says if says is None or says.re is _SAYS or says["noun"].lower() in sign.usual.split() else None
    if says is None and not (one.formula or sign.function) and _BEGINS.fullmatch(before):
        says = _CONVENTION.match(after)
    if says is None and verb and (one.formula or not sign.function or re.search(r"\bwrite\s+\Z", lead)):
        says = _FOR.match(after)
    itself = re.match(rf"\W*(?:is|are)\s+(?:the|an?|our)\s+(?:[\w-]+\s+){{1,3}}{sign.words}\W*\Z", after)
    if says is not None and (one.formula or not _ARTICLE.match(after) or (sign.function and itself)):
        at = one.end + (says.start("noun") if says.re is _IS else says.end())
        yield sentence[at : next((x for x in ahead if x > at), len(sentence))]
    elif verb and (by := _BY.search(before)) is not None:
        yield _AHEAD.sub("", before[: by.start()])

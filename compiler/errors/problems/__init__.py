"""Every kind of error, each with the smallest text that triggers it and a paragraph that teaches.

`section` is the section of grammar/README.md, the reference of the language, that has the rule which the text breaks.
`einc explain CODE` and the error index are made from this page; a test runs every example and looks up every section.
"""

from einc.errors.problems.balance import *
from einc.errors.problems.documents import *
from einc.errors.problems.domains import *
from einc.errors.problems.matrices import *
from einc.errors.problems.names import *
from einc.errors.problems.ranges import *
from einc.errors.problems.sets import *
from einc.errors.problems.state import *
from einc.errors.problems.warnings import *
from einc.errors.problems.writing import *

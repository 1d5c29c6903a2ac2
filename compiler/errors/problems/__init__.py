"""Every kind of error, each with the smallest text that triggers it and a paragraph that teaches.

`section` is the section of grammar/README.md, the reference of the language, that has the rule which the text breaks.
`einc explain CODE` and the error index are made from this page; a test runs every example and looks up every section.
"""

from einc.errors.problems.balance import (
    BoundAndFree,
    BoundTwice,
    FreeOnLeft,
    FreeOnRight,
    IdleBinder,
    SameLevel,
    TemporalSum,
    ThreeTimes,
    TwoReadings,
)
from einc.errors.problems.documents import (
    Damaged,
    DeclaredOtherwise,
    NoSuchSection,
    NotAccounted,
    NotRestated,
    NotTaken,
    NotThere,
    Unpacked,
)
from einc.errors.problems.domains import (
    CasesLeaveOut,
    CrossesRequests,
    CutDomain,
    EmptyDomain,
    ForeignIndex,
    IndicatorFactor,
    NoDomain,
    PartialOutput,
    ReadsFuture,
)
from einc.errors.problems.matrices import BadPattern, NoShape, OpenReading, ShapesDiffer
from einc.errors.problems.names import (
    AmbiguousScript,
    AskedTwice,
    BadDeclaration,
    CannotCall,
    CannotUse,
    DefinedTwice,
    NoSuchLabel,
    NoSuchSignature,
    NotApplicable,
    OnePythonName,
    OverridesNothing,
    Reserved,
    Transposed,
    TwoMeanings,
    Undeclared,
    UnknownIndex,
    UnreadableScript,
    WrongArguments,
)
from einc.errors.problems.ranges import BadMap, BadPart, OutOfRange
from einc.errors.problems.sets import AssignsInput, Circular, NoNumber, NoRequest, WrongData, WrongSet, WrongType
from einc.errors.problems.state import (
    ChosenLater,
    CutDependent,
    NeverStarted,
    OrderDependent,
    RoundValue,
    UpdateOutside,
)
from einc.errors.problems.warnings import (
    CapturedExtent,
    CutOff,
    IdleDelta,
    NotBrought,
    OtherLine,
    OtherTensor,
    ScaleLeft,
    Unread,
    Unused,
)
from einc.errors.problems.writing import (
    AmbiguousQuotient,
    BadLoop,
    BadNumber,
    BadScript,
    DoubleScript,
    NeedsArguments,
    NotText,
    NotYet,
    PlanLine,
    PlansDisagree,
    RelationAsValue,
    StrayCloser,
    TooDeep,
    TwoBars,
    TwoEquals,
    Unbound,
    Unclosed,
    Unexpected,
    UnknownMacro,
    UnreadableCharacter,
)

__all__ = [
    "AmbiguousQuotient", "AmbiguousScript", "AskedTwice", "AssignsInput", "BadDeclaration", "BadLoop", "BadMap",
    "BadNumber", "BadPart", "BadPattern", "BadScript", "BoundAndFree", "BoundTwice", "CannotCall", "CannotUse",
    "CapturedExtent", "CasesLeaveOut", "ChosenLater", "Circular", "CrossesRequests", "CutDependent", "CutDomain",
    "CutOff", "Damaged", "DeclaredOtherwise", "DefinedTwice", "DoubleScript", "EmptyDomain", "ForeignIndex",
    "FreeOnLeft", "FreeOnRight", "IdleBinder", "IdleDelta", "IndicatorFactor", "NeedsArguments", "NeverStarted",
    "NoDomain", "NoNumber", "NoRequest", "NoShape", "NoSuchLabel", "NoSuchSection", "NoSuchSignature", "NotAccounted",
    "NotApplicable", "NotBrought", "NotRestated", "NotTaken", "NotText", "NotThere", "NotYet", "OnePythonName",
    "OpenReading", "OrderDependent", "OtherLine", "OtherTensor", "OutOfRange", "OverridesNothing", "PartialOutput",
    "PlanLine", "PlansDisagree", "ReadsFuture", "RelationAsValue", "Reserved", "RoundValue", "SameLevel", "ScaleLeft",
    "ShapesDiffer", "StrayCloser", "TemporalSum", "ThreeTimes", "TooDeep", "Transposed", "TwoBars", "TwoEquals",
    "TwoMeanings", "TwoReadings", "Unbound", "Unclosed", "Undeclared", "Unexpected", "UnknownIndex", "UnknownMacro",
    "Unpacked", "Unread", "UnreadableCharacter", "UnreadableScript", "Unused", "UpdateOutside", "WrongArguments",
    "WrongData", "WrongSet", "WrongType",
]

package regex

// Reason is the kind of error in a pattern.
type Reason int

// The reasons; their order is that of POSIX's REG_ constants.
const (
	BadPattern Reason = iota + 1
	BadCollation
	BadClass
	TrailingBackslash
	BadReference
	UnmatchedBracket
	UnmatchedParen
	UnmatchedBrace
	BadInterval
	BadRange
	BadRepeat
	TooBig
	UnmatchedClose
	ClassSyntax
	NotSupported
)

// Error is the error of a pattern that can't be compiled.
type Error struct {
	Reason Reason
	Detail string // replaces the text of the reason, if not empty
}

// Error returns the message with GNU's wording.
func (e *Error) Error() string {
	if e.Detail != "" {
		return e.Detail
	}
	return e.Reason.String()
}

// String returns the message with GNU's wording.
func (r Reason) String() string {
	if r > 0 && int(r) < len(wording) {
		return wording[r]
	}
	return "Invalid regular expression"
}

// wording holds GNU's messages.
var wording = [...]string{
	BadPattern:        "Invalid regular expression",
	BadCollation:      "Invalid collation character",
	BadClass:          "Invalid character class name",
	TrailingBackslash: "Trailing backslash",
	BadReference:      "Invalid back reference",
	UnmatchedBracket:  "Unmatched [, [^, [:, [., or [=",
	UnmatchedParen:    `Unmatched ( or \(`,
	UnmatchedBrace:    `Unmatched \{`,
	BadInterval:       `Invalid content of \{\}`,
	BadRange:          "Invalid range end",
	BadRepeat:         "Invalid preceding regular expression",
	TooBig:            "Regular expression too big",
	UnmatchedClose:    `Unmatched ) or \)`,
	ClassSyntax:       "character class syntax is [[:space:]], not [:space:]",
	NotSupported:      "not supported",
}

package syntax

// Walk calls f for n and, when f returns true, for the nodes below it, in
// source order. The depth of a tree is bounded by its parser.
func Walk(n Node, f func(Node) bool) {}

// Call is a statically known command of a script.
type Call struct {
	Name string // "" when the name is only known after expansion
	Pos  Pos
	Args []*Word // all words, the name first
}

// Commands lists the commands that a script may run, in source order, those
// in functions and substitutions included.
func Commands(n Node) []Call { return nil }

package syntax

// Call is a statically known command of a script.
type Call struct {
	Name string // "" if the name is known only after expansion
	Pos  Pos
	Args []*Word // all words, the name first
}

// Commands returns the commands that a script may run, in source order,
// including those in functions and substitutions.
func Commands(n Node) []Call {
	var calls []Call
	Walk(n, func(n Node) bool {
		c, ok := n.(*Cmd)
		if !ok {
			return true
		}
		s, ok := c.Body.(*Simple)
		if ok && len(s.Args) > 0 {
			name, _ := s.Args[0].Static()
			calls = append(calls, Call{Name: name, Pos: c.Pos, Args: s.Args})
		}
		return true
	})
	return calls
}

// Static returns the text of a word if it is known without running anything:
// literal and quoted text only, without globs, braces and tildes.
func (w *Word) Static() (string, bool) {
	var out []byte
	for i, part := range w.Parts {
		switch part := part.(type) {
		case *Lit:
			if activeText(part.Value, i == 0) {
				return "", false
			}
			out = append(out, part.Value...)
		case *Quoted:
			out = append(out, part.Value...)
		case *DblQuoted:
			for _, q := range part.Parts {
				l, ok := q.(*Lit)
				if !ok {
					return "", false
				}
				out = append(out, l.Value...)
			}
		default:
			return "", false
		}
	}
	return string(out), w.Assign == nil
}

func activeText(s string, first bool) bool {
	if s == "[" || s == "[[" {
		return false
	}
	for i := range len(s) {
		switch s[i] {
		case '*', '?', '[', '{':
			return true
		case '~':
			if first && i == 0 {
				return true
			}
		}
	}
	return false
}

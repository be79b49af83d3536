package dialect

// Gathering joins the pieces of an answer. The zero Gathering is empty; what
// it holds is whole after the piece of type End.
type Gathering struct {
	Response

	open bool   // the last part may grow
	text []byte // of the last part, so far
}

// Add adds a piece.
func (g *Gathering) Add(d Delta) {
	switch d.Type {
	case Begin:
		g.ID, g.Model = d.ID, d.Model
	case TextDelta:
		g.grow(TextPart, d.Text)
	case ThinkingDelta:
		g.grow(ThinkingPart, d.Text)
	case ThinkingEnd:
		g.grow(ThinkingPart, "")
		g.Parts[len(g.Parts)-1].Signature = d.Text
		g.close()
	case ToolBegin:
		g.close()
		g.Parts = append(g.Parts, Part{Type: ToolUse, ID: d.ID, Name: d.Name, Signature: d.Text})
		g.open = true
	case ToolDelta:
		g.grow(ToolUse, d.Text)
	case UsageTold:
		g.Usage = d.Usage
	case End:
		g.close()
		g.Stop, g.Usage = d.Stop, d.Usage
	}
}

func (g *Gathering) grow(t PartType, text string) {
	if n := len(g.Parts); n == 0 || !g.open || g.Parts[n-1].Type != t {
		g.close()
		g.Parts = append(g.Parts, Part{Type: t})
		g.open = true
	}
	g.text = append(g.text, text...)
}

// close ends the last part.
func (g *Gathering) close() {
	if !g.open {
		return
	}
	p := &g.Parts[len(g.Parts)-1]
	if p.Type == ToolUse {
		p.Input = input(string(g.text))
	} else {
		p.Text = string(g.text)
	}
	g.open, g.text = false, nil
}

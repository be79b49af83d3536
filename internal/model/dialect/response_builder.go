package dialect

// ResponseBuilder builds a Response from deltas. The zero ResponseBuilder is empty; the
// Response is complete after the delta of type End.
type ResponseBuilder struct {
	Response

	open bool   // the last part is not complete
	text []byte // of the last part, so far
}

// Add adds a delta.
func (g *ResponseBuilder) Add(d Delta) {
	switch d.Type {
	case Begin:
		g.ID, g.Model = d.ID, d.Model
	case TextDelta:
		g.appendText(TextPart, d.Text)
	case ThinkingDelta:
		g.appendText(ThinkingPart, d.Text)
	case ThinkingEnd:
		g.appendText(ThinkingPart, "")
		g.Parts[len(g.Parts)-1].Signature = d.Text
		g.close()
	case ToolBegin:
		g.close()
		g.Parts = append(g.Parts, Part{Type: ToolUse, ID: d.ID, Name: d.Name, Signature: d.Text})
		g.open = true
	case ToolDelta:
		g.appendText(ToolUse, d.Text)
	case UsageReported:
		g.Usage = d.Usage
	case End:
		g.close()
		g.Stop, g.Usage = d.Stop, d.Usage
	}
}

func (g *ResponseBuilder) appendText(t PartType, text string) {
	if n := len(g.Parts); n == 0 || !g.open || g.Parts[n-1].Type != t {
		g.close()
		g.Parts = append(g.Parts, Part{Type: t})
		g.open = true
	}
	g.text = append(g.text, text...)
}

// close completes the last part.
func (g *ResponseBuilder) close() {
	if !g.open {
		return
	}
	p := &g.Parts[len(g.Parts)-1]
	if p.Type == ToolUse {
		p.Input = inputObject(string(g.text))
	} else {
		p.Text = string(g.text)
	}
	g.open, g.text = false, nil
}

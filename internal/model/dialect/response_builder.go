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

// Replay passes a whole answer to f as deltas.
func Replay(a *Response, f func(Delta) error) error {
	list := []Delta{{Type: Begin, ID: a.ID, Model: a.Model}, {Type: UsageReported, Usage: a.Usage}}
	for _, p := range a.Parts {
		switch p.Type {
		case TextPart:
			list = append(list, Delta{Type: TextDelta, Text: p.Text})
		case ThinkingPart:
			if p.Text != "" {
				list = append(list, Delta{Type: ThinkingDelta, Text: p.Text})
			}
			list = append(list, Delta{Type: ThinkingEnd, Text: p.Signature})
		case ToolUse:
			list = append(list, Delta{Type: ToolBegin, ID: p.ID, Name: p.Name, Text: p.Signature}, Delta{Type: ToolDelta, Text: string(p.Input)})
		}
	}
	for _, d := range append(list, Delta{Type: End, Stop: a.Stop, Usage: a.Usage}) {
		if err := f(d); err != nil {
			return err
		}
	}
	return nil
}

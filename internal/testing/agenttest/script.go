package agenttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
)

// Script returns a shell script that prints the output of a transcript: a fake of the
// agent for any sandbox. It reads all of its input first or, if the transcript has sent
// input in between, a line for each. Use it as Turn.Command, or as the agent's program.
func Script(t testing.TB, dir string) []byte {
	t.Helper()
	tr := Load(t, dir)
	var b bytes.Buffer
	b.WriteString("#!/bin/sh\n")
	hasInput := false
	for _, l := range tr.Lines {
		hasInput = hasInput || l.Sent
	}
	if !hasInput {
		b.WriteString("cat >/dev/null\n")
	}
	const end = "END_OF_OUTPUT"
	printData := func(data []byte, to string) {
		if len(data) > 0 {
			fmt.Fprintf(&b, "cat%s <<'%s'\n%s\n%s\n", to, end, data, end)
		}
	}
	for _, l := range tr.Lines {
		if l.Sent {
			b.WriteString("read -r line\n")
		} else {
			printData(l.Data, "")
		}
	}
	printData(bytes.TrimSuffix(tr.Stderr, []byte("\n")), " >&2")
	fmt.Fprintf(&b, "exit %d\n", tr.Code)
	return b.Bytes()
}

// playTranscript returns a Program that prints the output of a transcript at once.
func playTranscript(tr Transcript) Program {
	return func(_ context.Context, p *Process) int {
		for _, l := range tr.Lines {
			if !l.Sent {
				if _, err := io.Copy(p.Stdout, strings.NewReader(string(l.Data)+"\n")); err != nil {
					return 141
				}
			}
		}
		if _, err := p.Stderr.Write(tr.Stderr); err != nil {
			return 141
		}
		return tr.Code
	}
}

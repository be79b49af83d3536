package main

import (
	"bytes"
	"errors"
	"testing"
)

// TestErrorsDoNothingToTheTerminal prints what a hostile server may answer.
func TestErrorsDoNothingToTheTerminal(t *testing.T) {
	var out bytes.Buffer
	a := &app{streams: streams{err: &out}}
	a.complain(errors.New("exec \x1b]0;PWNED\x07box\x1b[2J: \tsecond\nline\u202e\r\n"))
	a.progress("server %s", "\x1b[31mred")
	want := "atoll: exec ·]0;PWNED·box·[2J:     second\n       line··\nserver ·[31mred\n"
	if out.String() != want {
		t.Errorf("printed\n%q\nwant\n%q", out.String(), want)
	}
}

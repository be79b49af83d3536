package app

import (
	"bytes"
	"errors"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

// TestErrorsNameSandboxesAsAsked prints an error with the id of a sandbox that was opened by its name.
func TestErrorsNameSandboxesAsAsked(t *testing.T) {
	var out bytes.Buffer
	a := &App{Streams: tty.Streams{Err: &out}}
	a.asked.Store("s0000000000a1", "box")
	a.PrintError(errors.New("exec s0000000000a1: write /home/s0000000000a1: s0000000000a2: no space"))
	if want := "atoll: exec box: write /home/s0000000000a1: s0000000000a2: no space\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

// TestErrorsDoNothingToTheTerminal prints what a hostile server may answer.
func TestErrorsDoNothingToTheTerminal(t *testing.T) {
	var out bytes.Buffer
	a := &App{Streams: tty.Streams{Err: &out}}
	a.PrintError(errors.New("exec \x1b]0;PWNED\x07box\x1b[2J: \tsecond\nline\u202e\r\n"))
	a.Progress("server %s", "\x1b[31mred")
	want := "atoll: exec ·]0;PWNED·box·[2J:     second\n       line··\nserver ·[31mred\n"
	if out.String() != want {
		t.Errorf("printed\n%q\nwant\n%q", out.String(), want)
	}
}

package data

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/jq"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// jqReader reads the values of one file.
type jqReader interface {
	Decode() (jq.Value, error)
	Line() int
}

// jqInput reads the values of all files, one after the other.
type jqInput struct {
	j       *jqJob
	files   []string // not yet opened
	name    string   // of the open one
	h       *kernel.Handle
	r       jqReader
	slurped bool // the single slurped value was returned
	bad     error
}

// nextInput returns the next input; ok is false at the end.
func (j *jqJob) nextInput() (jq.Value, bool, error) {
	in := &j.in
	if in.bad != nil {
		return nil, false, nil
	}
	if j.slurp {
		if in.slurped {
			return nil, false, nil
		}
		in.slurped = true
		v, err := in.readAll()
		return v, err == nil, err
	}
	return in.next()
}

// next returns the next value of all files.
func (in *jqInput) next() (jq.Value, bool, error) {
	for {
		if in.r == nil && !in.open() {
			return nil, false, nil
		}
		v, err := in.r.Decode()
		switch {
		case err == nil:
			return v, true, nil
		case errors.Is(err, io.EOF):
			in.close()
		default:
			in.bad = err
			return nil, false, err
		}
	}
}

// open opens the next readable file and reports whether there is one.
func (in *jqInput) open() bool {
	for len(in.files) > 0 {
		name := in.files[0]
		in.files = in.files[1:]
		h, err := stream.Open(in.j.p, name)
		if err != nil {
			in.j.p.Errorf("error: Could not open %s: %s", name, program.Reason(err))
			in.j.errors++
			continue
		}
		in.name, in.h = name, h
		switch code := in.j.code; {
		case in.j.rawIn:
			in.r = code.LineDecoder(h)
		case in.j.stream:
			in.r = code.EventDecoder(h)
		default:
			in.r = code.Decoder(h)
		}
		return true
	}
	return false
}

func (in *jqInput) close() {
	if in.name != "-" {
		_ = in.h.Close() // it was opened for reading
	}
	in.r = nil
}

// readAll reads every value into an array, or all text into a string.
func (in *jqInput) readAll() (jq.Value, error) {
	if in.j.rawIn {
		return in.readText()
	}
	a := jq.NewArray()
	for {
		v, ok, err := in.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return a, nil
		}
		in.j.p.Alloc(32)
		a.Items = append(a.Items, v)
	}
}

// readText returns the text of all files.
func (in *jqInput) readText() (jq.Value, error) {
	var b strings.Builder
	for in.open() {
		s, err := in.r.(*jq.LineDecoder).Rest()
		if err != nil {
			return nil, err
		}
		b.WriteString(s)
		in.close()
	}
	return b.String(), nil
}

func (in *jqInput) currentName() jq.Value {
	if in.name == "" || in.name == "-" {
		return nil
	}
	return in.name
}

func (in *jqInput) lineNumber() int {
	if in.r == nil {
		return 0
	}
	return in.r.Line()
}

// position returns the current input for messages: its name and line.
func (in *jqInput) position() string {
	switch {
	case in.name == "":
		return "<unknown>"
	case in.name == "-":
		return fmt.Sprintf("<stdin>:%d", in.lineNumber())
	}
	return fmt.Sprintf("%s:%d", in.name, in.lineNumber())
}

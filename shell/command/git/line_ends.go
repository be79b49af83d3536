package git

import (
	"bytes"
	"fmt"
	"strings"
)

// lineEnds are the conversions of the ends of lines of a file.
type lineEnds struct {
	clean  bool // CR LF is stored as LF
	smudge bool // LF is written as CR LF
	auto   bool // only for files that look like text
}

// lineEndsOf returns how the ends of lines of a file are converted, as its attributes and core.autocrlf ask for.
func (r *repository) lineEndsOf(name string) lineEnds {
	text, eol, crlf := r.attribute(name, "text"), r.attribute(name, "eol"), strings.ToLower(r.conf.get("core.autocrlf"))
	e := lineEnds{clean: true, smudge: eol == "crlf" || eol == "" && (crlf == "true" || crlf != "input" && r.conf.get("core.eol") == "crlf")}
	switch {
	case text == attributeUnset:
		return lineEnds{}
	case text == attributeSet:
	case text == "auto":
		e.auto = true
	case eol == "lf" || eol == "crlf":
	case text == "" && (crlf == "true" || crlf == "input"):
		e.auto = true
	default:
		return lineEnds{}
	}
	return e
}

// cleanLines returns the content that is stored for a file: with LF at the ends of lines where its attributes ask for it.
func (r *repository) cleanLines(name string, b []byte) ([]byte, error) {
	if !bytes.Contains(b, []byte("\r\n")) {
		return b, nil
	}
	e := r.lineEndsOf(name)
	if !e.clean || e.auto && looksBinary(b) {
		return b, nil
	}
	if e.auto { // a file that is stored with CR LF keeps it
		if stored, err := r.storesCarriageReturns(name); err != nil || stored {
			return b, err
		}
	}
	r.p.Alloc(int64(len(b)))
	r.p.Tick(len(b))
	return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), nil
}

// storesCarriageReturns reports whether the index has a file with CR LF.
func (r *repository) storesCarriageReturns(name string) (bool, error) {
	kept := r.conflicts
	x, err := r.readIndex()
	if r.conflicts = kept; err != nil {
		return false, err
	}
	e, ok := x[name]
	if !ok || e.mode == modeRepo {
		return false, nil
	}
	_, b, err := r.readObject(e.id)
	if err != nil {
		return false, err
	}
	defer r.release(b)
	return bytes.Contains(b, []byte("\r\n")), nil
}

// smudgeLines returns the content that is written for a stored file: with CR LF where its attributes ask for it.
func (r *repository) smudgeLines(name string, b []byte) []byte {
	if !bytes.Contains(b, []byte("\n")) {
		return b
	}
	e := r.lineEndsOf(name)
	if !e.smudge || e.auto && (looksBinary(b) || bytes.Contains(b, []byte("\r"))) {
		return b
	}
	r.p.Alloc(int64(2*len(b) + bytes.Count(b, []byte("\n"))))
	r.p.Tick(len(b))
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
}

// warnLineEnds warns if a file would have other ends of lines after the next checkout; stored is its stored content.
func (r *repository) warnLineEnds(name string, stored []byte) {
	info, err := r.p.Lstat(r.root + "/" + name)
	if err != nil || !info.Mode().IsRegular() || r.conf.get("core.safecrlf") == "false" {
		return
	}
	now, next := "CRLF", "LF"
	switch again := int64(len(r.smudgeLines(name, stored))); {
	case again < info.Size():
	case again > info.Size():
		now, next = next, now
	default:
		return
	}
	_, _ = fmt.Fprintf(r.p.Stderr, "warning: in the working copy of '%s', %s will be replaced by %s the next time Git touches it\n", name, now, next) // best effort
}

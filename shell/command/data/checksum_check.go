package data

import (
	"errors"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

// listed is an entry of a list of checksums.
type listed struct {
	d    digest
	bits int
	sum  string
	name string
}

// tally counts the results for a list.
type tally struct {
	good, bad, unreadable, mismatched, verified int
}

// verifyList verifies the files in a list of checksums.
func (job *sumJob) verifyList(list string) bool {
	p := job.p
	in, err := stream.Open(p, list)
	if err != nil {
		p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(list), program.Reason(err))
		return false
	}
	defer stream.Close(in)
	shown := list
	if list == "-" {
		shown = "standard input"
	}
	l := stream.NewLineReader(p, in, '\n')
	defer l.Close()
	var n tally
	for no, line := 1, l.Next(); line != nil; no, line = no+1, l.Next() {
		text := strings.TrimSuffix(string(stream.TrimDelimiter(line, '\n')), "\r")
		if text == "" || text[0] == '#' {
			continue
		}
		e, ok := job.parseLine(text)
		if !ok {
			n.bad++
			if job.warn {
				p.Errorf("%s: %d: improperly formatted %s checksum line", quoting.QuoteNameIfNeeded(shown), no, job.d.name)
			}
			continue
		}
		n.good++
		job.verifyOne(e, &n)
	}
	return job.reportTally(shown, n)
}

// verifyOne verifies one file and counts the result.
func (job *sumJob) verifyOne(e listed, n *tally) {
	p := job.p
	say := func(name, verdict string) {
		if !job.status {
			if strings.Contains(name, "\n") {
				name = `\` + strings.ReplaceAll(strings.ReplaceAll(name, `\`, `\\`), "\n", `\n`)
			}
			_, _ = p.Out().WriteString(name + ": " + verdict + "\n") // Flush reports the error
		}
	}
	got, _, _, err := job.sum(e.name, e.d, e.bits)
	switch {
	case job.missing && errors.Is(err, vfs.ENOENT):
	case err != nil:
		p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(e.name), program.Reason(err))
		say(e.name, "FAILED open or read")
		n.unreadable++
	case !strings.EqualFold(got, e.sum):
		n.mismatched++
		n.verified++
		say(e.name, "FAILED")
	default:
		n.verified++
		if !job.quiet {
			say(e.name, "OK")
		}
	}
}

// reportTally reports the problems of a list and whether it was verified.
func (job *sumJob) reportTally(list string, n tally) bool {
	p := job.p
	if n.good == 0 {
		p.Errorf("%s: no properly formatted checksum lines found", quoting.QuoteNameIfNeeded(list))
		return false
	}
	if !job.status {
		warn := func(n int, one, many string) {
			if n > 0 {
				p.Errorf("WARNING: %d %s", n, map[bool]string{true: one, false: many}[n == 1])
			}
		}
		warn(n.bad, "line is improperly formatted", "lines are improperly formatted")
		warn(n.unreadable, "listed file could not be read", "listed files could not be read")
		warn(n.mismatched, "computed checksum did NOT match", "computed checksums did NOT match")
		if job.missing && n.verified == 0 {
			p.Errorf("%s: no file was verified", quoting.QuoteNameIfNeeded(list))
		}
	}
	return n.unreadable == 0 && n.mismatched == 0 && (!job.strict || n.bad == 0) && (!job.missing || n.verified > 0)
}

// parseLine parses "SUM  name", "SUM *name" or "NAME (name) = SUM".
func (job *sumJob) parseLine(s string) (e listed, ok bool) {
	s = strings.TrimLeft(s, " \t")
	escaped := strings.HasPrefix(s, `\`)
	s = strings.TrimPrefix(s, `\`)
	e, ok = job.parseTagged(s)
	if !ok {
		if job.cksum && !job.chosen {
			return e, false
		}
		n := len(s) - len(strings.TrimLeft(s, "0123456789abcdefABCDEF"))
		rest := s[n:]
		e = listed{d: job.d, bits: n * 4, sum: s[:n]}
		switch {
		case job.d.word != "blake2b" && n*4 != job.d.bits, n == 0 || n > 128 || n%2 != 0, len(rest) < 2 || rest[0] != ' ' && rest[0] != '\t':
			return e, false
		case rest[1] == ' ' || rest[1] == '*':
			e.name = rest[2:]
		default:
			e.name = rest[1:]
		}
	}
	if e.name == "" {
		return e, false
	}
	if escaped {
		e.name = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r").Replace(e.name)
	}
	return e, true
}

func (job *sumJob) parseTagged(s string) (e listed, ok bool) {
	for _, d := range digests {
		rest, ok := strings.CutPrefix(s, d.name)
		if d.name == "" || !ok || !job.cksum && d.word != job.d.word || job.chosen && d.word != job.d.word {
			continue
		}
		bits := d.bits
		if d.word == "blake2b" && strings.HasPrefix(rest, "-") {
			if k, err := fmt.Sscanf(rest, "-%d", &bits); k != 1 || err != nil || bits <= 0 || bits > 512 || bits%8 != 0 {
				continue
			}
			rest = strings.TrimLeft(rest[1:], "0123456789")
		}
		rest = strings.TrimPrefix(rest, " ")
		end := strings.LastIndexByte(rest, ')')
		if !strings.HasPrefix(rest, "(") || end < 0 {
			continue
		}
		sum := strings.TrimLeft(rest[end+1:], " \t")
		sum, ok = strings.CutPrefix(sum, "=")
		sum = strings.TrimLeft(sum, " \t")
		if ok && len(sum)*4 == bits && strings.Trim(sum, "0123456789abcdefABCDEF") == "" {
			return listed{d: d, bits: bits, sum: sum, name: rest[1:end]}, true
		}
	}
	return e, false
}

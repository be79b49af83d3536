package stream

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

// OperandsOrStdin returns list, or "-" if it is empty.
func OperandsOrStdin(list []string) []string {
	if len(list) == 0 {
		return []string{"-"}
	}
	return list
}

// Close closes a handle that Open returned. It leaves standard streams open.
func Close(h *kernel.Handle) {
	if h.Fd() > 2 {
		_ = h.Close() // it was opened for reading
	}
}

// Open opens an operand for reading; "-" is standard input. Close the handle with Close.
func Open(p *kernel.Proc, name string) (*kernel.Handle, error) {
	if name == "-" {
		return p.Stdin, nil
	}
	h, err := p.Open(name)
	if err != nil {
		return nil, err
	}
	if h.Mode().IsDir() {
		_ = h.Close() // it was opened for reading
		return nil, vfs.EISDIR
	}
	return h, nil
}

// ReadNames returns the NUL-terminated names in the file of --files0-from. It reports errors itself and
// returns false; wording is the message if the file can't be opened.
func ReadNames(p *kernel.Proc, from, wording string, operands []string) ([]string, bool) {
	if len(operands) > 0 {
		p.Errorf("extra operand %s\nfile operands cannot be combined with --files0-from", quoting.QuoteName(operands[0]))
		option.SuggestHelp(p)
		return nil, false
	}
	in, err := Open(p, from)
	if err != nil {
		p.Errorf("%s: %s", wording, program.Reason(err))
		return nil, false
	}
	defer Close(in)
	b, err := p.ReadAll(in)
	if err != nil {
		p.Errorf("%s: read error: %s", quoting.QuoteName(from), program.Reason(err))
		return nil, false
	}
	if len(b) == 0 {
		return []string{}, true
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), true
}

// DropInvalidNames removes invalid names and reports them. It returns the rest and an exit status.
func DropInvalidNames(p *kernel.Proc, from string, names []string) ([]string, int) {
	good, code := []string{}, 0
	for i, n := range names {
		switch {
		case n == "":
			p.Errorf("%s:%d: invalid zero-length file name", quoting.QuoteNameIfNeeded(from), i+1)
			code = 1
		case n == "-" && from == "-":
			p.Errorf("when reading file names from stdin, no file name of %s allowed", quoting.QuoteName(n))
			code = 1
		default:
			good = append(good, n)
		}
	}
	return good, code
}

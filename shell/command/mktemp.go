package command

import (
	"errors"
	"os"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

const mktempUsage = `Usage: mktemp [OPTION]... [TEMPLATE]
Create a temporary file or directory, safely, and print its name.
TEMPLATE must contain at least 3 consecutive 'X's in last component.
If TEMPLATE is not specified, use tmp.XXXXXXXXXX, and --tmpdir is implied.
Files are created u+rw, and directories u+rwx, minus umask restrictions.

  -d, --directory     create a directory, not a file
  -u, --dry-run       do not create anything; merely print a name (unsafe)
  -q, --quiet         suppress diagnostics about file/dir-creation failure
      --suffix=SUFF   append SUFF to TEMPLATE; SUFF must not contain a slash.
                        This option is implied if TEMPLATE does not end in X
  -p DIR, --tmpdir[=DIR]  interpret TEMPLATE relative to DIR; if DIR is not
                        specified, use $TMPDIR if set, else /tmp.  With
                        this option, TEMPLATE must not be an absolute name
  -t                  interpret TEMPLATE as a single file name component,
                        relative to a directory: $TMPDIR, if set; else the
                        directory specified via -p; else /tmp
      --help          display this help and exit
`

var mktempOptions = parsing{options: []option{
	{short: 'd', long: "directory"},
	{short: 'u', long: "dry-run"},
	{short: 'q', long: "quiet"},
	{long: "suffix", arg: required, id: 's'},
	{short: 'p', arg: required},
	{long: "tmpdir", arg: optional, id: 'p'},
	{short: 't'},
}}

type tempMaker struct {
	p                 *kernel.Proc
	dir, dry, quiet   bool
	suffix            string
	hasSuffix         bool
	parent            string
	useParent, legacy bool
}

func mktemp(p *kernel.Proc) int {
	opts, names, ok := mktempOptions.parse(p)
	if !ok {
		return 1
	}
	m := tempMaker{p: p}
	for _, o := range opts {
		switch o.key {
		case 'd':
			m.dir = true
		case 'u':
			m.dry = true
		case 'q':
			m.quiet = true
		case 's':
			m.suffix, m.hasSuffix = o.value, true
		case 'p':
			m.parent, m.useParent = o.value, true
		case 't':
			m.legacy, m.useParent = true, true
		}
	}
	if len(names) > 1 {
		p.Errorf("too many templates")
		tryHelp(p)
		return 1
	}
	template := "tmp.XXXXXXXXXX"
	if len(names) == 1 {
		template = names[0]
	} else {
		m.useParent = true
	}
	head, count, tail, msg := m.split(template)
	if msg != "" {
		p.Errorf("%s", msg)
		return 1
	}
	return m.make(head, count, tail)
}

// split finds the run of X in the template and applies the directory.
func (m *tempMaker) split(t string) (head string, count int, tail, msg string) {
	if m.hasSuffix {
		if !strings.HasSuffix(t, "X") {
			return "", 0, "", "with --suffix, template " + quote(t) + " must end in X"
		}
		tail = m.suffix
		head = t
	} else {
		i := strings.LastIndexByte(t, 'X') + 1
		head, tail = t[:i], t[i:]
	}
	if strings.Contains(tail, "/") {
		return "", 0, "", "invalid suffix " + quote(tail) + ", contains directory separator"
	}
	count = len(head) - len(strings.TrimRight(head, "X"))
	if count < 3 {
		return "", 0, "", "too few X's in template " + quote(t)
	}
	head = head[:len(head)-count]
	if !m.useParent {
		return head, count, tail, ""
	}
	env := m.p.Getenv("TMPDIR")
	dir := m.parent
	switch {
	case m.legacy:
		if strings.Contains(head, "/") {
			return "", 0, "", "invalid template, " + quote(t) + ", contains directory separator"
		}
		if env != "" {
			dir = env
		}
	case strings.HasPrefix(head, "/"):
		return "", 0, "", "invalid template, " + quote(t) + "; with --tmpdir, it may not be absolute"
	}
	if dir == "" {
		dir = env
	}
	if dir == "" {
		dir = "/tmp"
	}
	return joinName(dir, head), count, tail, ""
}

const tempLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func (m *tempMaker) make(head string, count int, tail string) int {
	var name string
	var err error
	for range 1000 {
		b := make([]byte, count)
		m.p.Rand(b)
		for i := range b {
			b[i] = tempLetters[int(b[i])%len(tempLetters)]
		}
		name = head + string(b) + tail
		if err = m.create(name); !errors.Is(err, vfs.EEXIST) {
			break
		}
	}
	if err != nil {
		if !m.quiet {
			what := "file"
			if m.dir {
				what = "directory"
			}
			m.p.Errorf("failed to create %s via template %s: %s", what, quote(head+strings.Repeat("X", count)+tail), why(err))
		}
		return 1
	}
	_, _ = m.p.Out().WriteString(name + "\n") // shows at the flush
	return 0
}

func (m *tempMaker) create(name string) error {
	if m.dry {
		if _, err := m.p.Lstat(name); err == nil {
			return vfs.EEXIST
		}
		return nil
	}
	if m.dir {
		return m.p.Mkdir(name, 0o700)
	}
	h, err := m.p.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return h.Close()
}

package file

import (
	"errors"
	"os"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

var mktempOptions = option.Parser{Options: []option.Option{
	{Short: 'd', Long: "directory"},
	{Short: 'u', Long: "dry-run"},
	{Short: 'q', Long: "quiet"},
	{Long: "suffix", Arg: option.Required, ID: 's'},
	{Short: 'p', Arg: option.Required},
	{Long: "tmpdir", Arg: option.Optional, ID: 'p'},
	{Short: 't'},
}}

type tempMaker struct {
	p                 *kernel.Proc
	dir, dry, quiet   bool
	suffix            string
	hasSuffix         bool
	parent            string
	useParent, legacy bool
}

func runMktemp(p *kernel.Proc) int {
	opts, names, ok := mktempOptions.Parse(p)
	if !ok {
		return 1
	}
	m := tempMaker{p: p}
	for _, o := range opts {
		switch o.Key {
		case 'd':
			m.dir = true
		case 'u':
			m.dry = true
		case 'q':
			m.quiet = true
		case 's':
			m.suffix, m.hasSuffix = o.Value, true
		case 'p':
			m.parent, m.useParent = o.Value, true
		case 't':
			m.legacy, m.useParent = true, true
		}
	}
	if len(names) > 1 {
		p.Errorf("too many templates")
		option.SuggestHelp(p)
		return 1
	}
	template := "tmp.XXXXXXXXXX"
	if len(names) == 1 {
		template = names[0]
	} else {
		m.useParent = true
	}
	head, count, tail, msg := m.splitTemplate(template)
	if msg != "" {
		p.Errorf("%s", msg)
		return 1
	}
	return m.makeTemporary(head, count, tail)
}

// splitTemplate splits a template at its run of X and applies the directory.
func (m *tempMaker) splitTemplate(t string) (head string, count int, tail, msg string) {
	if m.hasSuffix {
		if !strings.HasSuffix(t, "X") {
			return "", 0, "", "with --suffix, template " + quoting.QuoteName(t) + " must end in X"
		}
		tail = m.suffix
		head = t
	} else {
		i := strings.LastIndexByte(t, 'X') + 1
		head, tail = t[:i], t[i:]
	}
	if strings.Contains(tail, "/") {
		return "", 0, "", "invalid suffix " + quoting.QuoteName(tail) + ", contains directory separator"
	}
	count = len(head) - len(strings.TrimRight(head, "X"))
	if count < 3 {
		return "", 0, "", "too few X's in template " + quoting.QuoteName(t)
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
			return "", 0, "", "invalid template, " + quoting.QuoteName(t) + ", contains directory separator"
		}
		if env != "" {
			dir = env
		}
	case strings.HasPrefix(head, "/"):
		return "", 0, "", "invalid template, " + quoting.QuoteName(t) + "; with --tmpdir, it may not be absolute"
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

func (m *tempMaker) makeTemporary(head string, count int, tail string) int {
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
			m.p.Errorf("failed to create %s via template %s: %s", what, quoting.QuoteName(head+strings.Repeat("X", count)+tail), program.Reason(err))
		}
		return 1
	}
	_, _ = m.p.Out().WriteString(name + "\n") // Flush reports the error
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

package command

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// backup says how cp, mv, ln and install keep what they replace.
type backup struct {
	on     bool
	kind   int
	suffix string
}

const (
	backupExisting = iota // numbered where such are there, else simple
	backupSimple
	backupNumbered
	backupNone
)

var backups = []choice{
	{"none", backupNone},
	{"off", backupNone},
	{"simple", backupSimple},
	{"never", backupSimple},
	{"existing", backupExisting},
	{"nil", backupExisting},
	{"numbered", backupNumbered},
	{"t", backupNumbered},
}

func newBackup(p *kernel.Proc) backup {
	b := backup{suffix: p.Getenv("SIMPLE_BACKUP_SUFFIX")}
	if b.suffix == "" || strings.Contains(b.suffix, "/") {
		b.suffix = "~"
	}
	return b
}

// choose applies -b or --backup[=CONTROL].
func (b *backup) choose(p *kernel.Proc, o given) bool {
	b.on = true
	word, from := o.value, "backup type"
	if !o.has {
		word, from = p.Getenv("VERSION_CONTROL"), "$VERSION_CONTROL"
	}
	if word == "" {
		return true
	}
	v, ok := choose(p, from, word, backups)
	b.kind, b.on = v, v != backupNone
	return ok
}

// name returns what the backup of a file is called.
func (b *backup) name(p *kernel.Proc, file string) string {
	highest := 0
	if b.kind != backupSimple {
		list, err := p.ReadDir(dirOf(file))
		if err == nil {
			for _, d := range list {
				num, ok := strings.CutPrefix(d.Name(), lastName(file)+".~")
				n, err := strconv.Atoi(strings.TrimSuffix(num, "~"))
				if ok && err == nil && strings.HasSuffix(num, "~") {
					highest = max(highest, n)
				}
			}
		}
	}
	file = strings.TrimRight(file, "/")
	if b.kind == backupNumbered || b.kind == backupExisting && highest > 0 {
		return file + ".~" + strconv.Itoa(highest+1) + "~"
	}
	return file + b.suffix
}

// confirm asks a question and reads the answer from standard input.
func confirm(p *kernel.Proc, question string) bool {
	_ = p.Out().Flush()                   // shows at the next flush
	_, _ = p.Stderr.WriteString(question) // nobody to tell
	answer, first := byte(0), true
	var b [1]byte
	for {
		n, err := p.Stdin.Read(b[:])
		if n == 1 && b[0] == '\n' || err != nil {
			return answer == 'y' || answer == 'Y'
		}
		if n == 1 && first {
			answer, first = b[0], false
		}
	}
}

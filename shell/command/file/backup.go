package file

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
)

// backup is how cp, mv, ln and install back up what they replace.
type backup struct {
	on     bool
	kind   int
	suffix string
}

const (
	backupExisting = iota // numbered if numbered ones exist, else simple
	backupSimple
	backupNumbered
	backupNone
)

var backups = []option.Choice{
	{Word: "none", Value: backupNone},
	{Word: "off", Value: backupNone},
	{Word: "simple", Value: backupSimple},
	{Word: "never", Value: backupSimple},
	{Word: "existing", Value: backupExisting},
	{Word: "nil", Value: backupExisting},
	{Word: "numbered", Value: backupNumbered},
	{Word: "t", Value: backupNumbered},
}

func newBackup(p *kernel.Proc) backup {
	b := backup{suffix: p.Getenv("SIMPLE_BACKUP_SUFFIX")}
	if b.suffix == "" || strings.Contains(b.suffix, "/") {
		b.suffix = "~"
	}
	return b
}

// applyOption applies -b or --backup[=CONTROL].
func (b *backup) applyOption(p *kernel.Proc, o option.Setting) bool {
	b.on = true
	word, from := o.Value, "backup type"
	if !o.HasValue {
		word, from = p.Getenv("VERSION_CONTROL"), "$VERSION_CONTROL"
	}
	if word == "" {
		return true
	}
	v, ok := option.Choose(p, from, word, backups)
	b.kind, b.on = v, v != backupNone
	return ok
}

// name returns the name of the backup of a file.
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

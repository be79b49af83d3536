// Package account maps names of users and groups to their numbers and back.
package account

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// Database holds the names and numbers of users and groups in /etc/passwd and /etc/group. Without
// the files, number 0 is root and other numbers have no name.
type Database struct {
	p           *kernel.Proc
	users       map[int]string
	groups      map[int]string
	uids        map[string]int
	gids        map[string]int
	LoginGroups map[int]int // login group by uid
}

// NewDatabase returns the users and groups that a process sees. It reads the files when the first
// name or number is looked up.
func NewDatabase(p *kernel.Proc) *Database { return &Database{p: p} }

func (o *Database) load() {
	if o.users != nil {
		return
	}
	o.users, o.uids, o.LoginGroups = map[int]string{0: "root"}, map[string]int{"root": 0}, map[int]int{0: 0}
	o.groups, o.gids = map[int]string{0: "root"}, map[string]int{"root": 0}
	o.readTable("/etc/passwd", o.users, o.uids, o.LoginGroups)
	o.readTable("/etc/group", o.groups, o.gids, nil)
}

// readTable reads a file of lines name:password:number:number…
func (o *Database) readTable(file string, names map[int]string, numbers map[string]int, groups map[int]int) {
	b, err := o.p.ReadFile(file)
	if err != nil {
		return // without the file, numbers have no names
	}
	for line := range strings.Lines(string(b)) {
		o.p.Tick(1)
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) < 3 {
			continue
		}
		n, err := strconv.Atoi(f[2])
		if err != nil {
			continue
		}
		if _, ok := numbers[f[0]]; !ok {
			numbers[f[0]] = n
		}
		if _, ok := names[n]; !ok {
			names[n] = f[0]
		}
		if groups != nil && len(f) > 3 {
			if g, err := strconv.Atoi(f[3]); err == nil {
				groups[n] = g
			}
		}
	}
}

// UserName returns the name of a user, or "".
func (o *Database) UserName(uid int) string {
	o.load()
	return o.users[uid]
}

// GroupName returns the name of a group, or "".
func (o *Database) GroupName(gid int) string {
	o.load()
	return o.groups[gid]
}

// UserNameOrID returns the name of a user, or the number in decimal.
func (o *Database) UserNameOrID(uid int) string { return nameOrNumber(o.UserName(uid), uid) }

// GroupNameOrID returns the name of a group, or the number in decimal.
func (o *Database) GroupNameOrID(gid int) string { return nameOrNumber(o.GroupName(gid), gid) }

func nameOrNumber(name string, n int) string {
	if name == "" {
		return strconv.Itoa(n)
	}
	return name
}

// UID returns the number of a user given by name or number, and whether it is valid.
func (o *Database) UID(name string) (int, bool) {
	o.load()
	return lookUpNumber(name, o.uids)
}

// GID returns the number of a group given by name or number, and whether it is valid.
func (o *Database) GID(name string) (int, bool) {
	o.load()
	return lookUpNumber(name, o.gids)
}

func lookUpNumber(name string, known map[string]int) (int, bool) {
	if n, ok := known[name]; ok {
		return n, true
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(name, "+"), 10, 32)
	return int(n), err == nil && n < 1<<32-1
}

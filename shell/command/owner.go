package command

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// owners knows the names of users and groups that /etc/passwd and /etc/group
// give. What they don't name but 0 has no name; 0 is root.
type owners struct {
	p      *kernel.Proc
	users  map[int]string
	groups map[int]string
	uids   map[string]int
	gids   map[string]int
	first  map[int]int // uid to its login group
}

func newOwners(p *kernel.Proc) *owners { return &owners{p: p} }

func (o *owners) load() {
	if o.users != nil {
		return
	}
	o.users, o.uids, o.first = map[int]string{0: "root"}, map[string]int{"root": 0}, map[int]int{0: 0}
	o.groups, o.gids = map[int]string{0: "root"}, map[string]int{"root": 0}
	o.read("/etc/passwd", o.users, o.uids, o.first)
	o.read("/etc/group", o.groups, o.gids, nil)
}

// read reads lines of name:password:number:number…
func (o *owners) read(file string, names map[int]string, numbers map[string]int, groups map[int]int) {
	b, err := o.p.ReadFile(file)
	if err != nil {
		return // no such table: numbers have no names
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

// user returns the name of a user, or "".
func (o *owners) user(uid int) string {
	o.load()
	return o.users[uid]
}

// group returns the name of a group, or "".
func (o *owners) group(gid int) string {
	o.load()
	return o.groups[gid]
}

// userOr returns the name of a user, or the number.
func (o *owners) userOr(uid int) string { return nameOr(o.user(uid), uid) }

// groupOr returns the name of a group, or the number.
func (o *owners) groupOr(gid int) string { return nameOr(o.group(gid), gid) }

func nameOr(name string, n int) string {
	if name == "" {
		return strconv.Itoa(n)
	}
	return name
}

// uid returns the number of a user given by name or number.
func (o *owners) uid(name string) (int, bool) {
	o.load()
	return number(name, o.uids)
}

// gid returns the number of a group given by name or number.
func (o *owners) gid(name string) (int, bool) {
	o.load()
	return number(name, o.gids)
}

func number(name string, known map[string]int) (int, bool) {
	if n, ok := known[name]; ok {
		return n, true
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(name, "+"), 10, 32)
	return int(n), err == nil && n < 1<<32-1
}

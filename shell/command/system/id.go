package system

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
)

const (
	idUsage = `Usage: id [OPTION]... [USER]...
Print user and group information for each specified USER,
or (when USER omitted) for the current process.

  -a             ignore, for compatibility with other versions
  -g, --group    print only the effective group ID
  -G, --groups   print all group IDs
  -n, --name     print a name instead of a number, for -ugG
  -r, --real     print the real ID instead of the effective ID, with -ugG
  -u, --user     print only the effective user ID
  -z, --zero     delimit entries with NUL characters, not whitespace
      --help     display this help and exit
`
	whoamiUsage = `Usage: whoami [OPTION]...
Print the user name associated with the current effective user ID.
Same as id -un.

      --help     display this help and exit
`
	groupsUsage = `Usage: groups [OPTION]... [USERNAME]...
Print group memberships for each USERNAME or, if no USERNAME is specified, for
the current process.

      --help     display this help and exit
`
	lognameUsage = `Usage: logname [OPTION]
Print the user's login name.

      --help     display this help and exit
`
	usersUsage = `Usage: users [OPTION]... [FILE]
Print the users who are logged in.

      --help     display this help and exit
`
)

// account is a user in /etc/passwd.
type account struct {
	name     string
	uid, gid int
	groups   []int // gid first
}

// findAccount returns the account of a user id, or of a name if id is negative.
func findAccount(p *kernel.Proc, name string, id int) (account, bool) {
	b, err := p.ReadFile("/etc/passwd")
	if err != nil {
		b = nil
	}
	for _, line := range append(strings.Split(string(b), "\n"), "root:x:0:0:root:/root:/bin/sh") {
		f := strings.Split(line, ":")
		if len(f) < 4 {
			continue
		}
		uid, err1 := strconv.Atoi(f[2])
		gid, err2 := strconv.Atoi(f[3])
		if err1 != nil || err2 != nil || id < 0 && f[0] != name || id >= 0 && uid != id {
			continue
		}
		return account{f[0], uid, gid, groupsOf(p, f[0], gid)}, true
	}
	return account{}, false
}

// groupsOf returns the groups of a user, the primary one first.
func groupsOf(p *kernel.Proc, name string, gid int) []int {
	list := []int{gid}
	eachGroup(p, func(_ string, id int, members []string) {
		for _, m := range members {
			if m == name && id != gid {
				list = append(list, id)
			}
		}
	})
	return list
}

func eachGroup(p *kernel.Proc, f func(name string, id int, members []string)) {
	b, err := p.ReadFile("/etc/group")
	if err != nil {
		b = []byte("root:x:0:\n")
	}
	for _, line := range strings.Split(string(b), "\n") {
		part := strings.Split(line, ":")
		if len(part) < 4 {
			continue
		}
		if id, err := strconv.Atoi(part[2]); err == nil {
			f(part[0], id, strings.Split(part[3], ","))
		}
	}
}

// groupNameOf returns the name of a group, or its number.
func groupNameOf(p *kernel.Proc, gid int) string {
	found := ""
	eachGroup(p, func(name string, id int, _ []string) {
		if id == gid && found == "" {
			found = name
		}
	})
	if found == "" {
		return strconv.Itoa(gid)
	}
	return found
}

var idOptions = option.Parser{Options: []option.Option{
	{Short: 'a'},
	{Short: 'Z', Long: "context"},
	{Short: 'g', Long: "group"},
	{Short: 'G', Long: "groups"},
	{Short: 'n', Long: "name"},
	{Short: 'r', Long: "real"},
	{Short: 'u', Long: "user"},
	{Short: 'z', Long: "zero"},
}}

func runId(p *kernel.Proc) int {
	opts, names, ok := idOptions.Parse(p)
	if !ok {
		return 1
	}
	set := map[rune]bool{}
	only := 0
	for _, o := range opts {
		if strings.ContainsRune("ugG", o.Key) && !set[o.Key] {
			only++
		}
		set[o.Key] = true
	}
	switch {
	case only > 1:
		p.Errorf("cannot print \"only\" of more than one choice")
		return 1
	case only == 0 && (set['n'] || set['r']):
		p.Errorf("cannot print only names or real IDs in default format")
		return 1
	case only == 0 && set['z']:
		p.Errorf("option --zero not permitted in default format")
		return 1
	case set['Z']:
		p.Errorf("--context (-Z) works only on an SELinux-enabled kernel")
		return 1
	}
	if len(names) == 0 {
		a, _ := findAccount(p, "", 0)
		printID(p, a, set)
		return 0
	}
	code := 0
	for _, n := range names {
		a, found := findUser(p, n)
		if !found {
			p.Errorf("%s: no such user", quoting.QuoteWord(n))
			code = 1
			continue
		}
		printID(p, a, set)
	}
	return code
}

// findUser returns an account by its name or its number.
func findUser(p *kernel.Proc, n string) (account, bool) {
	if a, ok := findAccount(p, n, -1); ok {
		return a, true
	}
	if uid, err := strconv.Atoi(strings.TrimPrefix(n, "+")); err == nil && uid >= 0 {
		return findAccount(p, "", uid)
	}
	return account{}, false
}

func printID(p *kernel.Proc, a account, set map[rune]bool) {
	sep, end := " ", "\n"
	if set['z'] {
		sep, end = "\x00", "\x00"
	}
	group := func(g int) string {
		if set['n'] {
			return groupNameOf(p, g)
		}
		return strconv.Itoa(g)
	}
	var text string
	switch {
	case set['u'] && set['n']:
		text = a.name
	case set['u']:
		text = strconv.Itoa(a.uid)
	case set['g']:
		text = group(a.gid)
	case set['G']:
		var list []string
		for _, g := range a.groups {
			list = append(list, group(g))
		}
		text = strings.Join(list, sep)
	default:
		var list []string
		for _, g := range a.groups {
			list = append(list, fmt.Sprintf("%d(%s)", g, groupNameOf(p, g)))
		}
		text = fmt.Sprintf("uid=%d(%s) gid=%d(%s) groups=%s", a.uid, a.name, a.gid, groupNameOf(p, a.gid), strings.Join(list, ","))
	}
	_, _ = p.Out().WriteString(text + end) // Flush reports the error
}

func runWhoami(p *kernel.Proc) int {
	_, args, ok := option.NoOptions.Parse(p)
	if !ok || option.ReportExtra(p, args, 0) {
		return 1
	}
	a, _ := findAccount(p, "", 0)
	_, _ = p.Out().WriteString(a.name + "\n") // Flush reports the error
	return 0
}

func runLogname(p *kernel.Proc) int {
	_, args, ok := option.NoOptions.Parse(p)
	if !ok || option.ReportExtra(p, args, 0) {
		return 1
	}
	name := p.Getenv("LOGNAME")
	if name == "" {
		p.Errorf("no login name")
		return 1
	}
	_, _ = p.Out().WriteString(name + "\n") // Flush reports the error
	return 0
}

func runUsers(p *kernel.Proc) int {
	_, args, ok := option.NoOptions.Parse(p)
	if !ok || option.ReportExtra(p, args, 1) {
		return 1
	}
	return 0 // a sandbox has no logins
}

func runGroups(p *kernel.Proc) int {
	_, names, ok := option.NoOptions.Parse(p)
	if !ok {
		return 1
	}
	if len(names) == 0 {
		a, _ := findAccount(p, "", 0)
		printID(p, a, map[rune]bool{'G': true, 'n': true})
		return 0
	}
	code := 0
	for _, n := range names {
		a, found := findUser(p, n)
		if !found {
			p.Errorf("%s: no such user", quoting.QuoteWord(n))
			code = 1
			continue
		}
		_, _ = p.Out().WriteString(n + " : ") // Flush reports the error
		printID(p, a, map[rune]bool{'G': true, 'n': true})
	}
	return code
}

package system

import (
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
)

const (
	pgrepUsage = `Usage: pgrep [options] <pattern>
Print the numbers of the processes whose name matches.

  -d, --delimiter <string>  specify output delimiter
  -l, --list-name           list PID and process name
  -a, --list-full           list PID and full command line
  -v, --inverse             negates the matching
  -c, --count               count of matching processes
  -f, --full                use full process name to match
  -i, --ignore-case         match case insensitively
  -n, --newest              select most recently started
  -o, --oldest              select least recently started
  -P, --parent <PPID,...>   match only child processes of the given parent
  -g, --pgroup <PGID,...>   match listed process group IDs
  -u, --euid <ID,...>       match by effective IDs
  -x, --exact               match exactly with the command name
      --help                display this help and exit
`
	pkillUsage = `Usage: pkill [options] <pattern>
Send a signal to the processes whose name matches.

  -<sig>, --signal <sig>    signal to send (either number or name)
  -e, --echo                display what is killed
  -c, --count               count of matching processes
  -f, --full                use full process name to match
  -i, --ignore-case         match case insensitively
  -n, --newest              select most recently started
  -o, --oldest              select least recently started
  -P, --parent <PPID,...>   match only child processes of the given parent
  -g, --pgroup <PGID,...>   match listed process group IDs
  -u, --euid <ID,...>       match by effective IDs
  -v, --inverse             negates the matching
  -x, --exact               match exactly with the command name
      --help                display this help and exit
`
	killallUsage = `Usage: killall [OPTION]... [--] NAME...
Send a signal to the processes with those names.

  -i, --interactive   not supported: commands are not interactive
  -I, --ignore-case   case insensitive process name match
  -l, --list          list all known signal names
  -q, --quiet         don't print complaints
  -r, --regexp        interpret NAME as an extended regular expression
  -s, --signal SIGNAL send this signal instead of SIGTERM
  -v, --verbose       report if the signal was successfully sent
      --help          display this help and exit
`
)

var grepProcOptions = []option.Option{
	{Short: 'd', Long: "delimiter", Arg: option.Required},
	{Short: 'l', Long: "list-name"},
	{Short: 'a', Long: "list-full"},
	{Short: 'v', Long: "inverse"},
	{Short: 'c', Long: "count"},
	{Short: 'f', Long: "full"},
	{Short: 'i', Long: "ignore-case"},
	{Short: 'n', Long: "newest"},
	{Short: 'o', Long: "oldest"},
	{Short: 'P', Long: "parent", Arg: option.Required},
	{Short: 'g', Long: "pgroup", Arg: option.Required},
	{Short: 'u', Long: "euid", Arg: option.Required},
	{Short: 'U', Long: "uid", Arg: option.Required, ID: 'u'},
	{Short: 'x', Long: "exact"},
	{Short: 'e', Long: "echo"},
	{Long: "signal", Arg: option.Required, ID: 'S'},
	{Short: 'w', Long: "lightweight"},
	{Short: 't', Long: "terminal", Arg: option.Required},
	{Short: 's', Long: "session", Arg: option.Required, ID: 'g'},
}

// procMatch selects processes.
type procMatch struct {
	p     *kernel.Proc
	set   map[rune]bool
	value map[rune]string
}

func (m *procMatch) read(args []string) (operands []string, ok bool) {
	m.set, m.value = map[rune]bool{}, map[rune]string{}
	saved := m.p.Args
	m.p.Args = append([]string{saved[0]}, args...)
	opts, operands, ok := option.Parser{Options: grepProcOptions}.Parse(m.p)
	m.p.Args = saved
	for _, o := range opts {
		m.set[o.Key], m.value[o.Key] = true, o.Value
	}
	return operands, ok
}

// find returns the matching processes, except the calling one.
func (m *procMatch) find(pattern string) ([]*kernel.Proc, bool) {
	if m.set['x'] {
		pattern = "^(" + pattern + ")$"
	}
	re, err := regex.Compile(pattern, regex.Options{Syntax: regex.ERE, Dialect: regex.Posix, IgnoreCase: m.set['i'], Budget: m.p})
	if err != nil {
		m.p.Errorf("%s", err)
		return nil, false
	}
	defer re.Release(m.p)
	among := func(key rune, n int) bool {
		return !m.set[key] || slices.Contains(strings.Split(m.value[key], ","), strconv.Itoa(n))
	}
	var list []*kernel.Proc
	for _, q := range m.p.Kernel().Procs() {
		if q == m.p {
			continue
		}
		name := q.Name()
		if m.set['f'] {
			name = q.Cmdline()
		}
		hit := re.Match([]byte(name), 0, nil, m.p) && among('P', q.PPID()) && among('g', q.Group()) && !m.set['t'] &&
			(!m.set['u'] || slices.Contains(strings.Split(m.value['u'], ","), "0") || slices.Contains(strings.Split(m.value['u'], ","), "root"))
		if hit != m.set['v'] {
			list = append(list, q)
		}
	}
	slices.SortStableFunc(list, func(a, b *kernel.Proc) int { return a.PID() - b.PID() })
	switch {
	case len(list) > 1 && m.set['n']:
		list = list[len(list)-1:]
	case len(list) > 1 && m.set['o']:
		list = list[:1]
	}
	return list, true
}

// parsePattern returns the operand. It may be missing if another option selects processes.
func (m *procMatch) parsePattern(operands []string) (string, bool) {
	switch {
	case len(operands) > 1:
		m.p.Errorf("only one pattern can be provided")
	case len(operands) == 1:
		return operands[0], true
	case m.set['P'] || m.set['g'] || m.set['u'] || m.set['t']:
		return "", true
	default:
		m.p.Errorf("no matching criteria specified")
	}
	option.SuggestHelp(m.p)
	return "", false
}

func runPgrep(p *kernel.Proc) int {
	m := &procMatch{p: p}
	operands, ok := m.read(p.Args[1:])
	if !ok {
		return 2
	}
	pattern, ok := m.parsePattern(operands)
	if !ok {
		return 2
	}
	list, ok := m.find(pattern)
	if !ok {
		return 2
	}
	sep := "\n"
	if m.set['d'] {
		sep = m.value['d']
	}
	var words []string
	for _, q := range list {
		w := strconv.Itoa(q.PID())
		switch {
		case m.set['a']:
			w += " " + q.Cmdline()
		case m.set['l']:
			w += " " + q.Name()
		}
		words = append(words, w)
	}
	switch {
	case m.set['c']:
		_, _ = p.Out().WriteString(strconv.Itoa(len(list)) + "\n") // Flush reports the error
	case len(words) > 0:
		_, _ = p.Out().WriteString(strings.Join(words, sep) + "\n")
	}
	if len(list) == 0 {
		return 1
	}
	return 0
}

func runPkill(p *kernel.Proc) int {
	m := &procMatch{p: p}
	signal := kernel.SIGTERM
	var args []string
	for _, a := range p.Args[1:] {
		if name, ok := strings.CutPrefix(a, "-"); ok && len(name) > 1 || ok && name != "" && name[0] >= '0' && name[0] <= '9' {
			if s, ok := signalOf(name); ok {
				signal = s
				continue
			}
		}
		args = append(args, a)
	}
	operands, ok := m.read(args)
	if !ok {
		return 2
	}
	if m.set['S'] {
		if signal, ok = signalOf(m.value['S']); !ok {
			p.Errorf("Unknown signal %q.", m.value['S'])
			return 2
		}
	}
	pattern, ok := m.parsePattern(operands)
	if !ok {
		return 2
	}
	list, ok := m.find(pattern)
	if !ok {
		return 2
	}
	for _, q := range list {
		if m.set['e'] {
			_, _ = p.Out().WriteString(q.Name() + " killed (pid " + strconv.Itoa(q.PID()) + ")\n") // Flush reports the error
		}
		_ = q.Kill(signal) // it may have exited
	}
	if m.set['c'] {
		_, _ = p.Out().WriteString(strconv.Itoa(len(list)) + "\n")
	}
	if len(list) == 0 {
		return 1
	}
	return 0
}

func runKillall(p *kernel.Proc) int {
	signal := kernel.SIGTERM
	args := p.Args[1:]
	if len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		if s, ok := signalOf(args[0][1:]); ok {
			signal = s
			p.Args = append([]string{p.Args[0]}, args[1:]...)
		}
	}
	opts, names, ok := option.Parser{Options: []option.Option{
		{Short: 'I', Long: "ignore-case"},
		{Short: 'l', Long: "list"},
		{Short: 'q', Long: "quiet"},
		{Short: 'r', Long: "regexp"},
		{Short: 'e', Long: "exact"},
		{Short: 's', Long: "signal", Arg: option.Required},
		{Short: 'v', Long: "verbose"},
		{Short: 'w', Long: "wait"},
		{Short: 'g', Long: "process-group"},
	}}.Parse(p)
	if !ok {
		return 1
	}
	set := map[rune]bool{}
	for _, o := range opts {
		set[o.Key] = true
		if o.Key == 's' {
			if signal, ok = signalOf(o.Value); !ok {
				_, _ = p.Stderr.WriteString(o.Value + ": unknown signal; killall -l lists signals.\n") // best effort
				return 1
			}
		}
	}
	if set['l'] {
		var list []string
		for s := kernel.Signal(1); s < 32; s++ {
			list = append(list, s.String())
		}
		_, _ = p.Out().WriteString(strings.Join(list, " ") + "\n") // Flush reports the error
		return 0
	}
	if len(names) == 0 {
		_, _ = p.Stderr.WriteString(killallUsage)
		return 1
	}
	code := 0
	for _, n := range names {
		if !killNamed(p, n, signal, set) {
			code = 1
		}
	}
	return code
}

func killNamed(p *kernel.Proc, name string, signal kernel.Signal, set map[rune]bool) bool {
	var list []*kernel.Proc
	ok := true
	if set['r'] {
		m := &procMatch{p: p, set: map[rune]bool{'i': set['I']}}
		list, ok = m.find(name)
	} else {
		for _, q := range p.Kernel().Procs() {
			if q != p && (q.Name() == name || set['I'] && strings.EqualFold(q.Name(), name)) {
				list = append(list, q)
			}
		}
	}
	for _, q := range list {
		_ = q.Kill(signal) // it may have exited
		if set['v'] {
			p.Errorf("Killed %s(%d) with signal %d", q.Name(), q.PID(), int(signal))
		}
	}
	if len(list) == 0 && ok && !set['q'] {
		_, _ = p.Stderr.WriteString(name + ": no process found\n") // best effort
	}
	return len(list) > 0
}

const pidofUsage = `Usage: pidof [options] [program [...]]
Print the numbers of the processes with those names.

  -s             return one process only
  -o <pid,...>   omit processes with these numbers
  -S <sep>       separate them by sep
  -q             print nothing, only return an exit status
      --help     display this help and exit
`

func runPidof(p *kernel.Proc) int {
	opts, names, ok := option.Parser{Options: []option.Option{
		{Short: 's', Long: "single-shot"},
		{Short: 'o', Long: "omit-pid", Arg: option.Required},
		{Short: 'S', Long: "separator", Arg: option.Required},
		{Short: 'q'},
		{Short: 'x'},
		{Short: 'c', Long: "check-root"},
		{Short: 'w', Long: "with-workers"},
	}}.Parse(p)
	if !ok {
		return 1
	}
	single, quiet, sep := false, false, " "
	var omit []string
	for _, o := range opts {
		switch o.Key {
		case 's':
			single = true
		case 'q':
			quiet = true
		case 'S':
			sep = o.Value
		case 'o':
			omit = append(omit, strings.Split(o.Value, ",")...)
		}
	}
	var list []string
	for _, q := range slices.Backward(p.Kernel().Procs()) {
		if q != p && slices.Contains(names, q.Name()) && !slices.Contains(omit, strconv.Itoa(q.PID())) {
			list = append(list, strconv.Itoa(q.PID()))
		}
	}
	if len(list) == 0 {
		return 1
	}
	if single {
		list = list[:1]
	}
	if !quiet {
		_, _ = p.Out().WriteString(strings.Join(list, sep) + "\n") // Flush reports the error
	}
	return 0
}

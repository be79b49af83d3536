package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const (
	uptimeUsage = `Usage: uptime [options]
Print how long the sandbox has been running.

  -p, --pretty   show uptime in pretty format
  -s, --since    system up since
      --help     display this help and exit
`
	whoUsage = `Usage: who [OPTION]... [ FILE | ARG1 ARG2 ]
Print who is logged in. Nobody logs in to a sandbox.

  -b, --boot     time of last system boot
  -q, --count    all login names and number of users logged on
  -r, --runlevel, -H, -a, -m, -u, -T  ignored
      --help     display this help and exit
`
	wUsage = `Usage: w [options]
Print who is logged in and what they are doing. Nobody logs in to a sandbox.

  -h, --no-header   do not print header
      --help        display this help and exit
`
	freeUsage = `Usage: free [options]
Print how much memory the processes of the sandbox use and may use.

  -b, --bytes   show output in bytes
  -k, --kibi    show output in kibibytes (the default)
  -m, --mebi    show output in mebibytes
  -g, --gibi    show output in gibibytes
  -h, --human   show human-readable output
  -t, --total   show a line of totals
      --help    display this help and exit
`
)

func uptime(p *kernel.Proc) int {
	opts, args, ok := parsing{options: []option{{short: 'p', long: "pretty"}, {short: 's', long: "since"}}}.parse(p)
	if !ok {
		return 1
	}
	if len(args) > 0 {
		_, _ = p.Stderr.WriteString(uptimeUsage) // nobody to tell
		return 1
	}
	up := p.Now().Sub(p.Kernel().Booted())
	text := uptimeLine(p, up)
	for _, o := range opts {
		switch o.key {
		case 'p':
			text = prettyUp(up)
		case 's':
			text = formatDate(p, p.Kernel().Booted().In(zoneOf(p)), "%Y-%m-%d %H:%M:%S")
		}
	}
	_, _ = p.Out().WriteString(text + "\n") // shows at the flush
	return 0
}

func uptimeLine(p *kernel.Proc, up time.Duration) string {
	m := int(up.Minutes())
	text := fmt.Sprintf("%2d min", m)
	if m >= 60 {
		text = fmt.Sprintf("%2d:%02d", m/60%24, m%60)
	}
	if d := m / 1440; d > 0 {
		text = fmt.Sprintf("%d day%s, %s", d, pluralS(d), text)
	}
	return formatDate(p, p.Now().In(zoneOf(p)), " %H:%M:%S") + " up " + text + ",  0 users,  load average: 0.00, 0.00, 0.00"
}

func prettyUp(up time.Duration) string {
	m := int(up.Minutes())
	var parts []string
	for _, u := range []struct {
		n    int
		name string
	}{{m / 10080, "week"}, {m / 1440 % 7, "day"}, {m / 60 % 24, "hour"}, {m % 60, "minute"}} {
		if u.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s%s", u.n, u.name, pluralS(u.n)))
		}
	}
	if parts == nil {
		return "up 0 minutes"
	}
	return "up " + strings.Join(parts, ", ")
}

func who(p *kernel.Proc) int {
	opts, _, ok := parsing{options: []option{
		{short: 'b', long: "boot"},
		{short: 'q', long: "count"},
		{short: 'H', long: "heading"},
		{short: 'a', long: "all"},
		{short: 'm'},
		{short: 'u', long: "users"},
		{short: 'r', long: "runlevel"},
		{short: 'T', long: "mesg"},
		{short: 's', long: "short"},
		{short: 'l', long: "login"},
		{short: 'd', long: "dead"},
	}}.parse(p)
	if !ok {
		return 1
	}
	out := p.Out()
	for _, o := range opts {
		switch o.key {
		case 'b', 'a':
			_, _ = out.WriteString(formatDate(p, p.Kernel().Booted().In(zoneOf(p)), "         system boot  %Y-%m-%d %H:%M\n")) // shows at the flush
		case 'q':
			_, _ = out.WriteString("# users=0\n")
		case 'H':
			_, _ = out.WriteString("NAME     LINE         TIME             COMMENT\n")
		}
	}
	return 0
}

func w(p *kernel.Proc) int {
	opts, _, ok := parsing{options: []option{{short: 'h', long: "no-header"}, {short: 's', long: "short"}, {short: 'f', long: "from"}, {short: 'u', long: "no-current"}, {short: 'i', long: "ip-addr"}}}.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if o.key == 'h' {
			return 0
		}
	}
	up := p.Now().Sub(p.Kernel().Booted())
	_, _ = p.Out().WriteString(uptimeLine(p, up) + "\nUSER     TTY      FROM             LOGIN@   IDLE   JCPU   PCPU WHAT\n") // shows at the flush
	return 0
}

func free(p *kernel.Proc) int {
	opts, _, ok := parsing{options: []option{
		{short: 'b', long: "bytes"},
		{short: 'k', long: "kibi"},
		{short: 'm', long: "mebi"},
		{short: 'g', long: "gibi"},
		{short: 'h', long: "human"},
		{short: 't', long: "total"},
		{short: 'w', long: "wide"},
		{short: 'l', long: "lohi"},
		{long: "si", id: 'S'},
	}}.parse(p)
	if !ok {
		return 1
	}
	unit, total := rune('k'), false
	for _, o := range opts {
		if o.key == 't' {
			total = true
		} else if strings.ContainsRune("bkmgh", o.key) {
			unit = o.key
		}
	}
	show := func(n int64) string {
		switch unit {
		case 'b':
			return fmt.Sprint(n)
		case 'm':
			return fmt.Sprint(n >> 20)
		case 'g':
			return fmt.Sprint(n >> 30)
		case 'h':
			text := humanSize(n, 1024)
			if last := text[len(text)-1]; last >= '0' && last <= '9' {
				return text + "B"
			}
			return text + "i"
		}
		return fmt.Sprint(n >> 10)
	}
	all := p.Kernel().Limits().Memory
	used := max(0, p.Kernel().Memory())
	row := func(name string, cols ...int64) {
		text := fmt.Sprintf("%-7s", name)
		for i, c := range cols {
			text += fmt.Sprintf("%*s", map[bool]int{true: 13, false: 12}[i == 0], show(c))
		}
		_, _ = p.Out().WriteString(text + "\n") // shows at the flush
	}
	_, _ = p.Out().WriteString("               total        used        free      shared  buff/cache   available\n")
	row("Mem:", all, used, all-used, 0, 0, all-used)
	row("Swap:", 0, 0, 0)
	if total {
		row("Total:", all, used, all-used)
	}
	return 0
}

// pluralS returns the ending of a word for n things.
func pluralS(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

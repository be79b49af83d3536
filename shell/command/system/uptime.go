package system

import (
	"fmt"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
)

const (
	uptimeUsage = `Usage: uptime [options]
Print how long the sandbox has been running.

  -p, --pretty   show uptime in pretty format
  -s, --since    system up since
      --help     display this help and exit
`
	whoUsage = `Usage: who [OPTION]... [ FILE | ARG1 ARG2 ]
Print the users who are logged in. A sandbox has no logins.

  -b, --boot     time of last system boot
  -q, --count    all login names and number of users logged on
  -r, --runlevel, -H, -a, -m, -u, -T  ignored
      --help     display this help and exit
`
	wUsage = `Usage: w [options]
Print the users who are logged in and what they are doing. A sandbox has no
logins.

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

func runUptime(p *kernel.Proc) int {
	opts, args, ok := option.Parser{Options: []option.Option{{Short: 'p', Long: "pretty"}, {Short: 's', Long: "since"}}}.Parse(p)
	if !ok {
		return 1
	}
	if len(args) > 0 {
		_, _ = p.Stderr.WriteString(uptimeUsage) // best effort
		return 1
	}
	up := p.Now().Sub(p.Kernel().BootTime())
	text := uptimeLine(p, up)
	for _, o := range opts {
		switch o.Key {
		case 'p':
			text = prettyUp(up)
		case 's':
			text = datetime.Format(p, p.Kernel().BootTime().In(datetime.LocalZone(p)), "%Y-%m-%d %H:%M:%S")
		}
	}
	_, _ = p.Out().WriteString(text + "\n") // Flush reports the error
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
	return datetime.Format(p, p.Now().In(datetime.LocalZone(p)), " %H:%M:%S") + " up " + text + ",  0 users,  load average: 0.00, 0.00, 0.00"
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

func runWho(p *kernel.Proc) int {
	opts, _, ok := option.Parser{Options: []option.Option{
		{Short: 'b', Long: "boot"},
		{Short: 'q', Long: "count"},
		{Short: 'H', Long: "heading"},
		{Short: 'a', Long: "all"},
		{Short: 'm'},
		{Short: 'u', Long: "users"},
		{Short: 'r', Long: "runlevel"},
		{Short: 'T', Long: "mesg"},
		{Short: 's', Long: "short"},
		{Short: 'l', Long: "login"},
		{Short: 'd', Long: "dead"},
	}}.Parse(p)
	if !ok {
		return 1
	}
	out := p.Out()
	for _, o := range opts {
		switch o.Key {
		case 'b', 'a':
			_, _ = out.WriteString(datetime.Format(p, p.Kernel().BootTime().In(datetime.LocalZone(p)), "         system boot  %Y-%m-%d %H:%M\n")) // Flush reports the error
		case 'q':
			_, _ = out.WriteString("# users=0\n")
		case 'H':
			_, _ = out.WriteString("NAME     LINE         TIME             COMMENT\n")
		}
	}
	return 0
}

func runW(p *kernel.Proc) int {
	opts, _, ok := option.Parser{Options: []option.Option{{Short: 'h', Long: "no-header"}, {Short: 's', Long: "short"}, {Short: 'f', Long: "from"}, {Short: 'u', Long: "no-current"}, {Short: 'i', Long: "ip-addr"}}}.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if o.Key == 'h' {
			return 0
		}
	}
	up := p.Now().Sub(p.Kernel().BootTime())
	_, _ = p.Out().WriteString(uptimeLine(p, up) + "\nUSER     TTY      FROM             LOGIN@   IDLE   JCPU   PCPU WHAT\n") // Flush reports the error
	return 0
}

func runFree(p *kernel.Proc) int {
	opts, _, ok := option.Parser{Options: []option.Option{
		{Short: 'b', Long: "bytes"},
		{Short: 'k', Long: "kibi"},
		{Short: 'm', Long: "mebi"},
		{Short: 'g', Long: "gibi"},
		{Short: 'h', Long: "human"},
		{Short: 't', Long: "total"},
		{Short: 'w', Long: "wide"},
		{Short: 'l', Long: "lohi"},
		{Long: "si", ID: 'S'},
	}}.Parse(p)
	if !ok {
		return 1
	}
	unit, total := rune('k'), false
	for _, o := range opts {
		if o.Key == 't' {
			total = true
		} else if strings.ContainsRune("bkmgh", o.Key) {
			unit = o.Key
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
			text := number.FormatHuman(n, 1024)
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
		_, _ = p.Out().WriteString(text + "\n") // Flush reports the error
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

package system

import (
	"fmt"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
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

// pluralS returns the ending of a word for n things.
func pluralS(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

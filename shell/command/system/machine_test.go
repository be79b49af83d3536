package system_test

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

func TestCal(t *testing.T) {
	var cases []commandtest.Case
	for _, args := range []string{"1 2024", "2 2024", "12 1999", "9 2023", "feb 2023", "-3 6 2024", "2024", "-y 2023", "-j 3 2024", "-A 1 5 2024", "-B 1 1 2024", "-m 5 2024", "13 2024", "x 2024", "0", "10000", "1 2 3", "-z"} {
		cases = append(cases, commandtest.Case{Run: "cal " + args, Loose: true})
	}
	commandtest.Compare(t, cases)
}

func TestGetconfAndLocale(t *testing.T) {
	commandtest.Compare(t, commandtest.Cases(nil, "", "getconf PATH_MAX /", "getconf LONG_BIT", "getconf INT_MAX", "getconf CHAR_BIT", "getconf PAGESIZE", "getconf NAME_MAX /", "getconf NOSUCH", "getconf", "locale charmap", "locale -k decimal_point", "locale nosuch", "locale abday", "sync", "sync nofile", "tty", "tty -s", "tty x", "users x y", "logname x"))
	commandtest.Compare(t, []commandtest.Case{{Run: "locale", Env: []string{"LANG=C.UTF-8"}}})
}

func TestWhich(t *testing.T) {
	s := commandtest.New(t, "/w")
	s.WriteFile("tool", string(kernel.StubFile("cat")))
	s.Must(s.FS.Chmod("/w/tool", 0o755))
	for _, c := range []struct {
		args []string
		want commandtest.Result
	}{
		{[]string{"which", "cat"}, commandtest.Result{Stdout: "/bin/cat\n"}},
		{[]string{"which", "cat", "nosuch", "env"}, commandtest.Result{Stdout: "/bin/cat\n/bin/env\n", Code: 1}},
		{[]string{"which", "nosuch"}, commandtest.Result{Code: 1}},
		{[]string{"which"}, commandtest.Result{Code: 1}},
		{[]string{"which", "-s", "cat"}, commandtest.Result{}},
		{[]string{"which", "./tool"}, commandtest.Result{Stdout: "./tool\n"}},
		{[]string{"which", "/w/tool", "/w"}, commandtest.Result{Stdout: "/w/tool\n", Code: 1}},
		{[]string{"env", "PATH=/bin:/w:/bin", "which", "-a", "cat"}, commandtest.Result{Stdout: "/bin/cat\n/bin/cat\n"}},
	} {
		if got := s.Exec("", c.args...); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.args, got, c.want)
		}
	}
}

// TestShapes checks the form of output that differs from host to host.
func TestShapes(t *testing.T) {
	s := commandtest.New(t, "/w")
	for line, want := range map[string]string{
		"uname -a":               `^Linux atoll \S+ .* x86_64 GNU/Linux\n$`,
		"hostname":               `^atoll\n$`,
		"nproc":                  `^1\n$`,
		"arch":                   `^x86_64\n$`,
		"id":                     `^uid=0\(root\) gid=0\(root\) groups=0\(root\)\n$`,
		"whoami":                 `^root\n$`,
		"uptime":                 `^ \d\d:\d\d:\d\d up  0 min,  0 users,  load average: 0\.00, 0\.00, 0\.00\n$`,
		"uptime -p":              `^up 0 minutes\n$`,
		"uptime -s":              `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n$`,
		"free":                   `(?s)^ +total +used.*\nMem: +65536 +\d+ +\d+ +0 +0 +\d+\nSwap: +0 +0 +0\n$`,
		"free -h":                `(?s)Mem: +64Mi`,
		"ps":                     `^    PID TTY          TIME CMD\n +\d+ \?        00:00:00 sh\n +\d+ \?        00:00:00 ps\n$`,
		"ps aux":                 `^USER .*%CPU %MEM .*COMMAND\nroot .* sh\nroot .* ps aux\n$`,
		"ps -ef":                 `^UID .*PID .*PPID .*CMD\nroot .*\nroot .* ps -ef\n$`,
		"ps -o pid=,comm= -C ps": `^ +\d+ ps\n$`,
		"ps -o nosuch":           `^$`,
		"ps -p 999999":           `^    PID TTY          TIME CMD\n$`,
		"uuidgen":                `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\n$`,
		"uuidgen -t":             `^[0-9a-f]{8}-[0-9a-f]{4}-1[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\n$`,
		"mcookie":                `^[0-9a-f]{32}\n$`,
		"tput cols":              `^80\n$`,
		"tput setaf 1":           "^\x1b\\[31m$",
		"tput cup 2 3":           "^\x1b\\[3;4H$",
		"stty size":              `^$`,
		"clear":                  "^\x1b\\[H\x1b\\[2J\x1b\\[3J$",
		"man seq":                `(?s)^seq - .*Usage: seq`,
		"man -k checksum":        `(?m)^md5sum \(1\)`,
		"who -q":                 `^# users=0\n$`,
		"pgrep -x pgrep":         `^$`,
		"pidof sh":               `^\d+\n$`,
		"pidof nosuch":           `^$`,
		"pgrep -l sh":            `^\d+ sh\n$`,
		"time -f %x,%C seq 1":    `^1\n$`,
		"awk --version":          `GNU Awk 5`,
		"bc --help":              `^usage: bc`,
	} {
		if o := s.Exec("", commandtest.SplitWords(line)...); !regexp.MustCompile(want).MatchString(o.Stdout) {
			t.Errorf("%s: %q does not match %s; %+v", line, o.Stdout, want, o)
		}
	}
}

// TestPkillEndsWhatItNames starts sleep and kills it by its name.
func TestPkillEndsWhatItNames(t *testing.T) {
	for _, kill := range [][]string{{"pkill", "-x", "sleep"}, {"pkill", "-9", "-f", "sleep 30"}, {"killall", "sleep"}, {"pkill", "-KILL", "slee"}, {"killall", "-s", "INT", "sleep"}} {
		s := commandtest.New(t, "/w", program.Command{Name: "stage", Run: func(p *kernel.Proc) int {
			spawn, err := p.Command([]string{"sleep", "30"})
			if err != nil {
				return 1
			}
			c, err := p.Spawn(spawn)
			if err != nil {
				return 1
			}
			if code := p.Run(kill...); code != 0 {
				return code
			}
			st, err := p.Wait(c, false)
			if err != nil || st.Signal == 0 {
				return 1
			}
			return 0
		}})
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		o, err := s.Run(ctx, nil, nil, "stage")
		cancel()
		if err != nil || o.Code != 0 {
			t.Errorf("%q: %+v %v", kill, o, err)
		}
	}
	s := commandtest.New(t, "/w")
	if o := s.Exec("", "killall", "nosuch"); o.Code != 1 || o.Stderr != "nosuch: no process found\n" {
		t.Errorf("%+v", o)
	}
}

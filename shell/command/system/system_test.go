package system_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
)

func TestEnv(t *testing.T) {
	commandtest.Compare(t, commandtest.Cases([]string{"d/", "d/f=x\n", "s=text\n"}, "",
		"env -i A=1 B=2", "env -i A=1 A=2 env", "env -i", "env - X=y", "env -i -0 A=1 B=2", "env -u HOME -u PATH -u LC_ALL -u TZ", "env nosuchprogram", "env -i PATH=/nonexistent cat",
		"env -C d cat f", "env -C nodir cat f", "env -C d", "env -u A=b cat", "env -0 cat", "env -Z", "env --unset", "env -S 'cat d/f'", "env -S 'printenv HOME'",
		"env -S 'cat \"d/f\" s'", "env -S 'cat \"unclosed'", "env -iS 'A=b'", "env --ignore-environment A='x y'", "env ./s", "env d", "env -u", "printenv NOSUCH", "printenv HOME NOSUCH TZ", "printenv -0 TZ", "printenv -x",
		"env X=1 printenv X", "env X= printenv X", "env -u TZ printenv TZ",
	))
}

func TestDate(t *testing.T) {
	var cases []commandtest.Case
	for _, d := range []string{
		"2024-01-15", "2024-01-15 10:30", "2024-01-15 10:30:15", "2024-01-15T10:30:00Z", "2024-01-15T10:30:00+02:00", "2024-01-15 10:30:15.5", "2024-01-15 10:30:15,25 UTC", "2024-01-15 10:00 EST", "2024-01-15 10:00 UTC+2", "2024-01-15 10pm", "2024-01-15 12:30am", "2024-01-15 10:00 PM",
		"@0", "@86400", "@-1.5", "@1.25", "@1 +1 day", "20240115", "20240115 10:30", "20240115 1030", "2024/12/25", "12/25/2024", "12/25/24", "15 jan 2024", "15 January 2024 3:04", "jan 15 2024", "jan 15, 2024", "Jan-15-2024", "15-jan-2024", "15-jan-24",
		"2024-01-15 monday", "monday 2024-01-15", "2024-01-15 next monday", "Mon, 15 Jan 2024 10:30:00 +0100", "Mon Jan 15 10:30:00 UTC 2024", "2024-01-31 1 month", "2024-01-31 +1 month", "2024-03-31 -1 month", "2024-01-15 2 days ago", "2024-01-15 + 3 days", "2024-01-15 -3 days", "2024-01-15 1 week ago", "2024-01-15 next week", "2024-01-15 last month", "2024-01-15 tomorrow", "2024-01-15 yesterday",
		"2024-01-15 10:00 +1 day", "2024-01-15 10:00 +2 days", "2024-01-15 10:00 1 day", "2024-01-15 10:00 2 hours ago", "2024-01-15 10:00 90 minutes", "2024-01-15 1 year 2 months 3 days", "2024-02-29 1 year", "2024-02-30", "2023-02-29", "2024-13-01", "2024-01-15 25:00", "2024-01-15 10:60", "2024-01-15 10:00:60", "foo", "jan 2024", "2024-01", "TZ=\"Asia/Tokyo\" 2024-01-01 10:00", "2024-01-15 3 fortnights", "2024-01-15 third week", "2024-01-15 (comment) 10:00", "1970-01-01 00:00:00 UTC +1000000 seconds", "2024-01-15 10:00 1.5 seconds", "69-01-01", "68-01-01", "0001-01-01", "2024-1-5", "2024-01-15 00:00 -0500", "2024-01-15T10", "12:00 2024", "2024-01-15 midnight", "2024-01-15 10:30 10:40", "2024-01-15 2024-01-16", "2024-01-15 now", "2024-01-15 a", "2024-01-15 10:00 z", "2024-01-15 10:00 +05:30", "15 mar 2024 T10:00", "2024-01-15 T10:00", "3/15/2024 T10:00 last year", "2024-01-15 10:00 +0530",
	} {
		cases = append(cases, commandtest.Case{Name: d, Run: "date -d '" + d + "' '+%F %T.%N %z %a'"})
	}
	for _, f := range []string{
		"%a %A %b %B %c %C %d %D %e %F %g %G %h %H %I", "%j %k %l %m %M %n %N %p %P %q %r %R %s %S %t %T", "%u %U %V %w %W %x %X %y %Y %z %:z %::z %:::z %Z %%", "%-d %_d %5d %-5d %05e %^a %#a %#Z %#p %^B %10a %_10a %010a", "%3N %9N %12N %6N", "%Q %i %v %E", "%+4Y %6Y %_6Y %s", "%Ey %Od %_H %-M %-S", "plain text", "", "%",
	} {
		for _, at := range []string{"2024-01-05 03:04:05.012345678", "2026-12-31 23:59:59"} {
			cases = append(cases, commandtest.Case{Run: "date -d '" + at + "' '+" + f + "'"}, commandtest.Case{Run: "date -d '" + at + "' '+" + f + "'", Env: []string{"TZ=America/New_York"}})
		}
	}
	for _, z := range []string{"Asia/Kolkata", "EST5EDT", "CET-1CEST,M3.5.0,M10.5.0/3", "UTC", "JST-9", "Nowhere/Else", "<+03>-3", "Europe/Berlin"} {
		cases = append(cases, commandtest.Case{Name: z, Run: "date -d @1720000000 '+%F %T %Z %z'\ndate -d '2024-07-01 12:00' +%s\ndate -d '2024-01-01 12:00' +%s\ndate -u -d @5", Env: []string{"TZ=" + z}})
	}
	cases = append(cases, commandtest.Cases([]string{"f=x", "dates=2024-01-01\nfoo\n@5\n"}, "2024-05-06\n",
		"date -d @1", "date -u -d @1", "date -I -d @1", "date -Iseconds -d @1", "date -Ihours -d @1", "date -Iminutes -d @1", "date -Ins -d @1", "date -Ifoo", "date -R -d @1", "date --rfc-3339=ns -d @1", "date --rfc-3339=date -d @1", "date --rfc-3339=x", "date -r f", "date -r nofile", "date -r f +%s", "date -f dates", "date -f -", "date -f dates +%F",
		"date foo", "date +%F +%T", "date 1 2", "date -d", "date -d @1 foo", "date -d @1 -r f", "date -R -I", "date -R +%F", "date --iso-8601=date --date=@5", "date -z", "date --utc --date='@0' +%c",
	)...)
	commandtest.Compare(t, cases)
}

// TestDateCantBeSet is not compared, since the host's date would set the clock.
func TestDateCantBeSet(t *testing.T) {
	s := commandtest.New(t, "/w")
	for _, args := range [][]string{{"date", "-s", "2024-01-01"}, {"date", "--set=@5"}, {"date", "010112002024"}} {
		if o := s.Exec("", args...); o.Code != 1 || !strings.Contains(o.Stderr, "cannot set date: Operation not permitted") {
			t.Errorf("%q: %+v", args, o)
		}
	}
}

// TestDateFollowsTheClock checks the relative words against the kernel's clock.
func TestDateFollowsTheClock(t *testing.T) {
	now := time.Date(2024, 1, 15, 10, 30, 0, 0, time.UTC) // a Monday
	for text, want := range map[string]string{
		"now": "2024-01-15 10:30", "today": "2024-01-15 10:30", "": "2024-01-15 00:00", "yesterday": "2024-01-14 10:30", "tomorrow 08:00": "2024-01-16 08:00",
		"2 days ago": "2024-01-13 10:30", "next monday": "2024-01-22 00:00", "monday": "2024-01-15 00:00", "friday": "2024-01-19 00:00", "last friday": "2024-01-12 00:00",
		"next month": "2024-02-15 10:30", "last year": "2023-01-15 10:30", "12": "2024-01-15 12:00", "1230": "2024-01-15 12:30", "+1 week": "2024-01-22 10:30", "-90 minutes": "2024-01-15 09:00",
		"third saturday": "2024-02-03 00:00", "12 jan": "2024-01-12 00:00", "12/25": "2024-12-25 00:00", "10:00 tomorrow": "2024-01-16 10:00", "1 hour ago": "2024-01-15 09:30",
	} {
		got, ok := datetime.Parse(text, now, time.UTC)
		if s := got.Format("2006-01-02 15:04"); !ok || s != want {
			t.Errorf("%q is %s, want %s", text, s, want)
		}
	}
}

func TestTee(t *testing.T) {
	commandtest.Compare(t, commandtest.Cases([]string{"old=old\n", "d/"}, "one\ntwo\n", "tee", "tee a b", "tee old", "tee -a old", "tee d x", "tee -z", "tee --output-error=warn x", "tee --output-error=bad x", "tee nodir/x y", "tee -- -f"))
}

func TestXargs(t *testing.T) {
	commandtest.Compare(t, commandtest.Cases([]string{"f=one\n", "g=two\n", "list=f\ng\n"}, "f g\n", "xargs cat", "xargs -n1 wc -l", "xargs -n 1 -t cat", "xargs -I X cat X", "xargs -I{} cat {} {}", "xargs -a list cat", "xargs -r cat", "xargs -L1 cat", "xargs nosuch", "xargs -n0 cat", "xargs -n x cat", "xargs -s 10 cat", "xargs -s 3 cat", "xargs -d '\\n' cat", "xargs -d xx cat", "xargs -0 cat", "xargs -z", "xargs -E g cat", "xargs seq", "xargs -x -n 1 cat", "xargs -i cat {}", "xargs -l cat", "xargs -t -I% cat % %"))
	commandtest.Compare(t, commandtest.Cases([]string{"a b=spaces\n", "c'd=quote\n", "f=one\n"}, "'a b' \"c'd\" a\\ b\nf\n\n  f  \n", "xargs cat", "xargs -n2 cat", "xargs -L1 cat", "xargs -t -L2 cat", "xargs -t -I X cat X", "xargs -t -n1 cat"))
	commandtest.Compare(t, commandtest.Cases([]string{"f=1\n"}, "", "xargs cat", "xargs -r cat", "xargs -n1 cat nofile", "xargs -I X cat X", "xargs -t cat"))
	commandtest.Compare(t, commandtest.Cases([]string{"f=1\n"}, "1 2 3 4 5 6 7\n", "xargs -n3 seq -s,", "xargs -n 2 -t seq", "xargs -n1 cat", "xargs -s 14 -t seq -s,", "xargs -n1 sh -c 'exit 3'", "xargs -n1 sh -c 'exit 255'")[:4])
	commandtest.Compare(t, commandtest.Cases(nil, "a\x00b c\x00\x00d", "xargs -0 -t -n1 printenv", "xargs -0 -t printenv"))
	commandtest.Compare(t, commandtest.Cases(nil, "it's", "xargs cat", "xargs -0 -t printenv"))
	commandtest.Compare(t, commandtest.Cases(nil, "a \\\nb\nc \nd\n", "xargs -L1 -t printenv", "xargs -t printenv", "xargs -I{} -t printenv -- {}"))
}

func TestSleepAndTimeout(t *testing.T) {
	commandtest.Compare(t, commandtest.Cases([]string{"f=x\n"}, "in\n", "sleep", "sleep x", "sleep 1x", "sleep -1", "sleep 0", "sleep 0.01 0.01", "sleep .01s", "sleep 0m", "sleep inf x",
		"timeout", "timeout 1", "timeout x cat", "timeout 5 cat", "timeout 0 cat f", "timeout 5 nosuch", "timeout 5 cat nofile", "timeout 0.05 sleep 5", "timeout -k 1 0.05 sleep 5", "timeout --preserve-status 0.05 sleep 5", "timeout -s INT --preserve-status 0.05 sleep 5", "timeout -s NOPE 1 cat", "timeout -v 0.05 sleep 5", "timeout --foreground 0.05 sleep 5", "timeout -v -s HUP 0.05 sleep 5", "timeout 1d cat f", "timeout -k x 1 cat"))
}

func TestWrappers(t *testing.T) {
	commandtest.Compare(t, commandtest.Cases([]string{"f=x\n"}, "in\n", "nohup", "nohup nosuch", "nice", "nice cat f", "nice -n 5 cat f", "nice -5 cat f", "nice -n x cat", "nice -n 5", "nice nosuch", "stdbuf -oL cat f", "stdbuf cat f", "stdbuf -iL cat", "stdbuf -o0", "stdbuf -ox cat f", "setsid nosuch", "stdbuf -oL nosuch", "setsid", "whoami x", "arch x", "uname -s", "uname", "uname x", "uname -m", "uname -o", "uname -so", "uname -p", "nproc x", "nproc --ignore=x", "id -u", "id -un", "id -g", "id -gn", "id -un root", "id -u daemon", "id nobody", "id nosuch", "id -ug", "id -n", "whoami", "logname x"))
}

// TestYesEnds checks that an endless writer stops with its reader.
func TestYesEnds(t *testing.T) {
	s := commandtest.New(t, "/w")
	var o commandtest.Result
	for d := 100 * time.Millisecond; d < time.Minute && o.Stdout == ""; d *= 2 { // on a busy machine it may not have begun
		ctx, cancel := context.WithTimeout(context.Background(), d)
		o, _ = s.Run(ctx, nil, nil, "yes", "a", "b")
		cancel()
	}
	if !strings.HasPrefix(o.Stdout, "a b\na b\n") {
		t.Errorf("%.40q", o.Stdout)
	}
}

// TestTimeoutByKill checks the exit status; on a host the command dies by a signal.
func TestTimeoutByKill(t *testing.T) {
	s := commandtest.New(t, "/w")
	for _, args := range [][]string{{"timeout", "-s", "KILL", "0.02", "sleep", "5"}, {"timeout", "-s", "9", "0.02", "sleep", "5"}} {
		if o := s.Exec("", args...); o.Code != 137 {
			t.Errorf("%q: %+v", args, o)
		}
	}
}

// TestXargsSideBySide checks that -P runs all commands, in any order.
func TestXargsSideBySide(t *testing.T) {
	commandtest.Compare(t, []commandtest.Case{{Run: "xargs -P4 -n1 cat", Tree: []string{"f=one\n", "g=two\n"}, Stdin: "f g f\n", Mixed: true}, {Run: "xargs -P0 -n1 seq", Stdin: "1 1 1\n", Mixed: true}})
}

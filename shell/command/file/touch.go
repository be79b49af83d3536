package file

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const touchUsage = `Usage: touch [OPTION]... FILE...
Update the access and modification times of each FILE to the current time.

A FILE argument that does not exist is created empty, unless -c or -h
is supplied.

  -a                     change only the access time
  -c, --no-create        do not create any files
  -d, --date=STRING      parse STRING and use it instead of current time
  -f                     (ignored)
  -h, --no-dereference   affect each symbolic link instead of any referenced file
  -m                     change only the modification time
  -r, --reference=FILE   use this file's times instead of current time
  -t STAMP               use [[CC]YY]MMDDhhmm[.ss] instead of current time
      --time=WORD        change the specified time:
                           access, atime, or use: like -a
                           modify or mtime: like -m
      --help             display this help and exit
`

var touchOptions = option.Parser{Options: []option.Option{
	{Short: 'a'},
	{Short: 'c', Long: "no-create"},
	{Short: 'd', Long: "date", Arg: option.Required},
	{Short: 'f'},
	{Short: 'h', Long: "no-dereference"},
	{Short: 'm'},
	{Short: 'r', Long: "reference", Arg: option.Required},
	{Short: 't', Arg: option.Required},
	{Long: "time", Arg: option.Required, ID: 'T'},
}}

type toucher struct {
	p              *kernel.Proc
	access, modify bool
	noCreate       bool
	noFollow       bool
	atime, mtime   time.Time
}

func runTouch(p *kernel.Proc) int {
	opts, names, ok := touchOptions.Parse(p)
	if !ok {
		return 1
	}
	t := toucher{p: p}
	var date, ref, stamp *option.Setting
	for i, o := range opts {
		switch o.Key {
		case 'a':
			t.access = true
		case 'm':
			t.modify = true
		case 'c':
			t.noCreate = true
		case 'h':
			t.noFollow, t.noCreate = true, true
		case 'd':
			date = &opts[i]
		case 'r':
			ref = &opts[i]
		case 't':
			stamp = &opts[i]
		case 'T':
			v, ok := option.Choose(p, "--time", o.Value, []option.Choice{{Word: "atime", Value: 1}, {Word: "access", Value: 1}, {Word: "use", Value: 1}, {Word: "mtime", Value: 2}, {Word: "modify", Value: 2}})
			if !ok {
				return 1
			}
			t.access, t.modify = t.access || v == 1, t.modify || v == 2
		}
	}
	if !t.access && !t.modify {
		t.access, t.modify = true, true
	}
	if stamp != nil && (date != nil || ref != nil) {
		p.Errorf("cannot specify times from more than one source")
		option.SuggestHelp(p)
		return 1
	}
	if !t.chooseTimes(date, ref, stamp) {
		return 1
	}
	if len(names) == 0 {
		p.Errorf("missing file operand")
		option.SuggestHelp(p)
		return 1
	}
	code := 0
	for _, name := range names {
		if !t.touchFile(name) {
			code = 1
		}
	}
	return code
}

// chooseTimes determines the times to set. It reports an error and returns false.
func (t *toucher) chooseTimes(date, ref, stamp *option.Setting) bool {
	now := t.p.Now()
	t.atime, t.mtime = now, now
	if ref != nil {
		info, err := t.p.Stat(ref.Value)
		if t.noFollow {
			info, err = t.p.Lstat(ref.Value)
		}
		if err != nil {
			t.p.Errorf("failed to get attributes of %s: %s", quoting.QuoteName(ref.Value), program.Reason(err))
			return false
		}
		t.atime, t.mtime = info.Atime(), info.ModTime()
	}
	if date != nil {
		for _, at := range []*time.Time{&t.atime, &t.mtime} {
			v, ok := datetime.Parse(date.Value, *at, datetime.LocalZone(t.p))
			if !ok {
				t.p.Errorf("invalid date format %s", quoting.QuoteWord(date.Value))
				return false
			}
			*at = v
		}
	}
	if stamp != nil {
		v, ok := parseStamp(stamp.Value, now, datetime.LocalZone(t.p))
		if !ok {
			t.p.Errorf("invalid date format %s", quoting.QuoteWord(stamp.Value))
			return false
		}
		t.atime, t.mtime = v, v
	}
	return true
}

// parseStamp parses [[CC]YY]MMDDhhmm[.ss].
func parseStamp(s string, now time.Time, zone *time.Location) (time.Time, bool) {
	digits, sec, dotted := strings.Cut(s, ".")
	if dotted && len(sec) != 2 || strings.Trim(digits+sec, "0123456789") != "" {
		return time.Time{}, false
	}
	var f []int
	for rest := digits + sec; len(rest) >= 2; rest = rest[2:] {
		n, _ := strconv.Atoi(rest[:2]) // digits only
		f = append(f, n)
	}
	if !dotted {
		f = append(f, 0)
	}
	year := now.In(zone).Year()
	switch len(digits) {
	case 12:
		year = f[0]*100 + f[1]
		f = f[2:]
	case 10:
		if year = 1900 + f[0]; f[0] < 69 {
			year = 2000 + f[0]
		}
		f = f[1:]
	case 8:
	default:
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(f[0]), f[1], f[2], f[3], f[4], 0, zone)
	sane := f[0] >= 1 && f[0] <= 12 && f[1] >= 1 && t.Day() == f[1] && f[2] < 24 && f[3] < 60 && f[4] <= 60
	return t, sane
}

func (t *toucher) touchFile(name string) bool {
	if name == "-" {
		return true
	}
	info, err := t.p.Stat(name)
	if t.noFollow {
		info, err = t.p.Lstat(name)
	}
	if err != nil && isMissing(err) && !t.noCreate {
		return t.create(name)
	}
	if err != nil {
		if t.noCreate && isMissing(err) {
			return true
		}
		t.p.Errorf("%s %s: %s", t.errorVerb(err), quoting.QuoteName(name), program.Reason(err))
		return false
	}
	if err := t.set(name, info); err != nil {
		t.p.Errorf("setting times of %s: %s", quoting.QuoteName(name), program.Reason(err))
		return false
	}
	return true
}

func (t *toucher) errorVerb(err error) string {
	if errors.Is(err, vfs.ENOENT) || t.noCreate {
		return "setting times of"
	}
	return "cannot touch"
}

func (t *toucher) create(name string) bool {
	if strings.HasSuffix(name, "/") {
		t.p.Errorf("setting times of %s: %s", quoting.QuoteName(name), vfs.ENOENT)
		return false
	}
	h, err := t.p.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		t.p.Errorf("cannot touch %s: %s", quoting.QuoteName(name), program.Reason(err))
		return false
	}
	info, err := h.File().Stat()
	stream.Close(h)
	if err == nil {
		err = t.set(name, info)
	}
	if err != nil {
		t.p.Errorf("setting times of %s: %s", quoting.QuoteName(name), program.Reason(err))
	}
	return err == nil
}

func (t *toucher) set(name string, info vfs.Info) error {
	atime, mtime := t.atime, t.mtime
	if !t.access {
		atime = info.Atime()
	}
	if !t.modify {
		mtime = info.ModTime()
	}
	if t.noFollow && info.Mode()&fs.ModeSymlink != 0 {
		return t.p.FS().Lchtimes(t.p.Path(name), atime, mtime)
	}
	return t.p.Chtimes(name, atime, mtime)
}

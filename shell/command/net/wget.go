package net

import (
	"errors"
	"path"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const wgetUsage = `Usage: wget [OPTION]... [URL]...
Download files over http and https, from the hosts that this sandbox may reach. Redirects are followed.

  -O, --output-document=FILE  write to FILE; - is standard output
  -P, --directory-prefix=DIR  save files in DIR
  -nc, --no-clobber           skip files that exist
  -i, --input-file=FILE       read URLs from FILE
  -q, --quiet, -nv            print no messages, or short ones
  -S, --server-response       print the headers of the response
      --spider                check that the URL exists, download nothing
      --header=LINE           header to send; may be repeated
      --post-data=TEXT, --post-file=FILE, --method=METHOD, --body-data=TEXT
  -U, --user-agent=NAME, --referer=URL, --user=NAME, --password=TEXT
  -T, --timeout=SECONDS, -t, --tries=NUMBER
      --max-redirect=NUMBER, --content-on-error
  -L, -N, -4, -6, --no-cache, --progress=TYPE, --show-progress: accepted

Not supported: -r, -m, -c, -k and --no-check-certificate. Use curl for what is missing.
`

var wgetOptions = option.Parser{Options: []option.Option{
	{Short: 'O', Long: "output-document", Arg: option.Required},
	{Short: 'P', Long: "directory-prefix", Arg: option.Required},
	{Short: 'i', Long: "input-file", Arg: option.Required},
	{Short: 'q', Long: "quiet"},
	{Short: 'S', Long: "server-response"},
	{Short: 'U', Long: "user-agent", Arg: option.Required},
	{Short: 'T', Long: "timeout", Arg: option.Required},
	{Short: 't', Long: "tries", Arg: option.Required},
	{Long: "spider", ID: 's'},
	{Long: "header", Arg: option.Required, ID: 'H'},
	{Long: "post-data", Arg: option.Required, ID: 'd'},
	{Long: "post-file", Arg: option.Required, ID: 'f'},
	{Long: "method", Arg: option.Required, ID: 'M'},
	{Long: "body-data", Arg: option.Required, ID: 'd'},
	{Long: "body-file", Arg: option.Required, ID: 'f'},
	{Long: "referer", Arg: option.Required, ID: 'e'},
	{Long: "user", Arg: option.Required, ID: 'u'},
	{Long: "http-user", Arg: option.Required, ID: 'u'},
	{Long: "password", Arg: option.Required, ID: 'p'},
	{Long: "http-password", Arg: option.Required, ID: 'p'},
	{Long: "max-redirect", Arg: option.Required, ID: 'R'},
	{Long: "content-on-error", ID: 'E'},
	{Long: "no-clobber", ID: 'C'},
	{Long: "no-verbose", ID: 'V'},
	{Short: 'L', Long: "relative", ID: '='},
	{Short: 'N', Long: "timestamping", ID: '='},
	{Short: '4', Long: "inet4-only", ID: '='},
	{Short: '6', Long: "inet6-only", ID: '='},
	{Long: "no-cache", ID: '='},
	{Long: "progress", Arg: option.Required, ID: '='},
	{Long: "show-progress", ID: '='},
	{Short: 'v', Long: "verbose", ID: '='},
	{Short: 'h', Long: "help"},
	{Short: 'r', Long: "recursive", ID: '!'},
	{Short: 'm', Long: "mirror", ID: '!'},
	{Short: 'c', Long: "continue", ID: '!'},
	{Short: 'k', Long: "convert-links", ID: '!'},
	{Short: 'p', Long: "page-requisites", ID: '!'},
	{Short: 'b', Long: "background", ID: '!'},
	{Long: "no-check-certificate", ID: '!'},
}}

// wgetJob is the state of one run of wget. The transfers are those of curl.
type wgetJob struct {
	p                                     *kernel.Proc
	c                                     *curl
	output, dir, user, password           string
	hasOutput, quiet, spider, keep, brief bool
	urls                                  []string
}

// Exit statuses of wget.
const (
	wgetGeneric    = 1
	wgetUsageError = 2
	wgetFile       = 3
	wgetNetwork    = 4
	wgetServer     = 8
)

func runWget(p *kernel.Proc) int {
	args := p.Args
	p.Args = append([]string{args[0]}, replaceBundles(args[1:])...)
	opts, operands, ok := wgetOptions.Parse(p)
	if !ok {
		return wgetUsageError
	}
	j := &wgetJob{p: p, c: &curl{p: p, network: p.Network(), set: map[rune]string{'L': "", 's': "", 'f': "", 'A': "Wget/1.21.3"}, jar: newJar()}}
	for _, o := range opts {
		if code := j.applyOption(o); code >= 0 {
			return code
		}
	}
	j.urls = append(j.urls, operands...)
	if len(j.urls) == 0 {
		p.Errorf("missing URL")
		_, _ = p.Stderr.WriteString("Usage: wget [OPTION]... [URL]...\n\nTry `wget --help' for more options.\n") // best effort
		return wgetGeneric
	}
	if j.c.network == nil {
		p.Errorf("this sandbox has no network; it is allowed host by host when the sandbox is created (--allow HOST)")
		return wgetNetwork
	}
	if j.user != "" {
		j.c.set['u'] = j.user + ":" + j.password
	}
	code := 0
	for n, u := range j.urls {
		if c := j.fetch(u, n); c != 0 {
			code = c
		}
	}
	return code
}

// replaceBundles replaces the options of two letters by their long names.
func replaceBundles(args []string) []string {
	list := make([]string, len(args))
	for n, a := range args {
		switch a {
		case "-nc":
			a = "--no-clobber"
		case "-nv":
			a = "--no-verbose"
		}
		list[n] = a
	}
	return list
}

// applyOption applies an option; a status of 0 or more ends the command.
func (j *wgetJob) applyOption(o option.Setting) int {
	set := j.c.set
	switch o.Key {
	case 'O':
		j.output, j.hasOutput = o.Value, true
	case 'P':
		j.dir = o.Value
	case 'i':
		b, err := j.c.read(o.Value)
		if err != nil {
			j.p.Errorf("%v", err)
			return wgetGeneric
		}
		j.urls = append(j.urls, strings.Fields(string(b))...)
	case 'q':
		j.quiet = true
	case 'V':
		j.brief = true
	case 'S':
		set['i'] = ""
	case 's':
		j.spider = true
		set['I'] = ""
	case 'C':
		j.keep = true
	case 'H':
		j.c.headers = append(j.c.headers, o.Value)
	case 'd':
		j.c.data = append(j.c.data, o.Value)
	case 'f':
		b, err := j.p.ReadFile(o.Value)
		if err != nil {
			j.p.Errorf("%s: %s", o.Value, program.Reason(err))
			return wgetFile
		}
		j.c.data = append(j.c.data, string(b))
	case 'M':
		set['X'] = o.Value
	case 'U':
		set['A'] = o.Value
	case 'e':
		set['e'] = o.Value
	case 'u':
		j.user = o.Value
	case 'p':
		j.password = o.Value
	case 'T':
		set['m'] = o.Value
	case 't':
		if n, err := strconv.Atoi(o.Value); err == nil && n > 0 {
			set['y'] = strconv.Itoa(min(n-1, 20))
		}
	case 'R':
		set['M'] = o.Value
	case 'E':
		delete(set, 'f')
	case '!':
		j.p.Errorf("option %s is not supported here: use curl, or wget for each URL; certificates are always checked", o.Name)
		return wgetUsageError
	case 'h':
		_, _ = j.p.Out().WriteString(wgetUsage) // Flush reports the error
		return 0
	}
	return -1
}

// fetch downloads one URL and returns the exit status.
func (j *wgetJob) fetch(raw string, n int) int {
	j.p.Tick(1)
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	output := j.output
	if !j.hasOutput {
		output = path.Join(j.dir, j.fileName(raw))
	}
	if j.spider {
		output = "/dev/null"
	}
	if !j.hasOutput && j.keep {
		if _, err := j.p.Stat(output); err == nil {
			j.report("File '" + output + "' already there; not retrieving.\n")
			return 0
		}
	}
	if j.dir != "" && !j.hasOutput {
		if err := j.p.MkdirAll(j.dir, 0o777); err != nil {
			j.p.Errorf("%s: %s", j.dir, program.Reason(err))
			return wgetFile
		}
	}
	err := j.c.fetchURL(raw, output, true)
	var failed *curlError
	switch {
	case err == nil:
		j.report(raw + " saved to '" + output + "'\n")
		return 0
	case !errors.As(err, &failed):
		j.p.Errorf("%v", err)
		return wgetGeneric
	}
	j.report("wget: " + raw + ": " + failed.msg + "\n")
	switch failed.code {
	case 22, 47:
		if !j.hasOutput && n >= 0 {
			_ = j.p.Unlink(output) // nothing was saved
		}
		return wgetServer
	case 1, 2, 3:
		return wgetGeneric
	case 23:
		return wgetFile
	}
	return wgetNetwork
}

// fileName returns the name under which a URL is saved: one that does not exist yet.
func (j *wgetJob) fileName(raw string) string {
	u, err := parseTarget(raw)
	if err != nil {
		return "index.html"
	}
	name := path.Base(u.Path)
	if u.Path == "" || strings.HasSuffix(u.Path, "/") || name == "." {
		name = "index.html"
	}
	if u.RawQuery != "" {
		name += "?" + strings.ReplaceAll(u.RawQuery, "/", "%2F")
	}
	free := name
	for n := 1; !j.keep; n++ {
		j.p.Tick(1)
		if _, err := j.p.Stat(path.Join(j.dir, free)); err != nil {
			break
		}
		free = name + "." + strconv.Itoa(n)
	}
	return free
}

func (j *wgetJob) report(text string) {
	if !j.quiet {
		_, _ = j.p.Stderr.WriteString(text) // best effort
	}
}

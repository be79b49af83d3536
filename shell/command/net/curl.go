// Package net holds the commands that reach other hosts: curl and wget.
package net

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// Commands returns curl and wget. They are not among command.All, as [Curl].
func Commands() []program.Command {
	return []program.Command{Curl(), {Name: "wget", Short: "download files", Usage: wgetUsage, Run: program.FlushOutput(runWget, 3)}}
}

// Curl returns the HTTP client. It is not among command.All: a sandbox has it only where it may reach
// hosts, through the network that its kernel was given.
func Curl() program.Command {
	return program.Command{
		Name: "curl", Short: "transfer a URL", Run: runCurl,
		Usage: `Usage: curl [options...] <url>...
  -X, --request METHOD      method
  -H, --header LINE         header to send; "Name:" drops one, @FILE reads lines
  -d, --data DATA           POST data (@FILE reads it, newlines dropped)
      --data-raw DATA       the same, @ means nothing
      --data-binary DATA    the same, newlines kept
      --data-urlencode DATA the same, encoded
      --json DATA           POST JSON with its headers
  -F, --form NAME=CONTENT   POST a form (@FILE uploads, <FILE reads)
  -G, --get                 put the data into the URL
  -T, --upload-file FILE    PUT a file
  -I, --head                only the headers
  -i, --include             headers before the body
  -o, --output FILE         write the body there
  -O, --remote-name         write the body to the URL's last name
      --output-dir DIR      directory for the two above
      --create-dirs         make the directories of the output
  -D, --dump-header FILE    write the headers there
  -L, --location            follow redirects
      --max-redirs NUM      at most this many (50)
  -f, --fail                no body and status 22 on an HTTP error
      --fail-with-body      the same, with the body
  -s, --silent              no messages
  -S, --show-error          messages even when silent
  -v, --verbose             print request and response headers
  -w, --write-out FORMAT    print this after a transfer
  -u, --user USER:PASSWORD  basic authentication
      --oauth2-bearer TOKEN bearer authentication
  -A, --user-agent NAME     name of the client
  -e, --referer URL         where from
  -b, --cookie DATA         cookies: name=value; ... or a file
  -c, --cookie-jar FILE     write the cookies there
  -r, --range RANGE         only these bytes
  -z, --time-cond DATE      only if modified since DATE
      --compressed          ask for a compressed body, and unpack it
  -m, --max-time SECONDS    limit of the whole transfer
      --connect-timeout S   limit of the connection
      --retry NUM           try again after a passing error
      --retry-delay S       wait this long in between
      --max-filesize BYTES  refuse a larger body
      --url URL             URL to transfer
  -#, --progress-bar, -N, -g, -4, -6, --http1.1, --http2: accepted

Only http and https, and only the hosts that this sandbox may reach.
`,
	}
}

// curlPacked is the key of --compressed.
const curlPacked = 1

// curl is the state of one run of curl.
type curl struct {
	p       *kernel.Proc
	network kernel.Network
	set     map[rune]string // the last value of each given option
	headers []string
	data    []string // parts of the body, joined by '&'
	isJSON  bool
	form    []formPart
	urls    []string
	outputs []string // -o; "" stands for -O
	jar     *cookieJar
}

var curlOptions = option.Parser{Options: []option.Option{
	{Short: 'X', Long: "request", Arg: option.Required, ID: 0},
	{Short: 'H', Long: "header", Arg: option.Required, ID: 0},
	{Short: 'd', Long: "data", Arg: option.Required, ID: 0},
	{Short: 0, Long: "data-ascii", Arg: option.Required, ID: 'd'},
	{Short: 0, Long: "data-raw", Arg: option.Required, ID: 'R'},
	{Short: 0, Long: "data-binary", Arg: option.Required, ID: 'B'},
	{Short: 0, Long: "data-urlencode", Arg: option.Required, ID: 'U'},
	{Short: 0, Long: "json", Arg: option.Required, ID: 'J'},
	{Short: 'F', Long: "form", Arg: option.Required, ID: 0},
	{Short: 0, Long: "form-string", Arg: option.Required, ID: 'E'},
	{Short: 'G', Long: "get", Arg: option.NoArgument, ID: 0},
	{Short: 'T', Long: "upload-file", Arg: option.Required, ID: 0},
	{Short: 'I', Long: "head", Arg: option.NoArgument, ID: 0},
	{Short: 'i', Long: "include", Arg: option.NoArgument, ID: 0},
	{Short: 0, Long: "show-headers", Arg: option.NoArgument, ID: 'i'},
	{Short: 'o', Long: "output", Arg: option.Required, ID: 0},
	{Short: 'O', Long: "remote-name", Arg: option.NoArgument, ID: 0},
	{Short: 0, Long: "output-dir", Arg: option.Required, ID: 'P'},
	{Short: 0, Long: "create-dirs", Arg: option.NoArgument, ID: 'C'},
	{Short: 'D', Long: "dump-header", Arg: option.Required, ID: 0},
	{Short: 'L', Long: "location", Arg: option.NoArgument, ID: 0},
	{Short: 0, Long: "max-redirs", Arg: option.Required, ID: 'M'},
	{Short: 'f', Long: "fail", Arg: option.NoArgument, ID: 0},
	{Short: 0, Long: "fail-with-body", Arg: option.NoArgument, ID: 'Y'},
	{Short: 's', Long: "silent", Arg: option.NoArgument, ID: 0},
	{Short: 'S', Long: "show-error", Arg: option.NoArgument, ID: 0},
	{Short: 'v', Long: "verbose", Arg: option.NoArgument, ID: 0},
	{Short: 'w', Long: "write-out", Arg: option.Required, ID: 0},
	{Short: 'u', Long: "user", Arg: option.Required, ID: 0},
	{Short: 0, Long: "basic", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "oauth2-bearer", Arg: option.Required, ID: 'Q'},
	{Short: 'A', Long: "user-agent", Arg: option.Required, ID: 0},
	{Short: 'e', Long: "referer", Arg: option.Required, ID: 0},
	{Short: 'b', Long: "cookie", Arg: option.Required, ID: 0},
	{Short: 'c', Long: "cookie-jar", Arg: option.Required, ID: 0},
	{Short: 'r', Long: "range", Arg: option.Required, ID: 0},
	{Short: 'z', Long: "time-cond", Arg: option.Required, ID: 0},
	{Short: 0, Long: "compressed", Arg: option.NoArgument, ID: curlPacked},
	{Short: 'm', Long: "max-time", Arg: option.Required, ID: 0},
	{Short: 0, Long: "connect-timeout", Arg: option.Required, ID: 't'},
	{Short: 0, Long: "retry", Arg: option.Required, ID: 'y'},
	{Short: 0, Long: "retry-delay", Arg: option.Required, ID: 'l'},
	{Short: 0, Long: "retry-all-errors", Arg: option.NoArgument, ID: '!'},
	{Short: 0, Long: "retry-connrefused", Arg: option.NoArgument, ID: '!'},
	{Short: 0, Long: "retry-max-time", Arg: option.Required, ID: '='},
	{Short: 0, Long: "max-filesize", Arg: option.Required, ID: 'x'},
	{Short: 0, Long: "url", Arg: option.Required, ID: 'W'},
	{Short: '#', Long: "progress-bar", Arg: option.NoArgument, ID: '='},
	{Short: 'N', Long: "no-buffer", Arg: option.NoArgument, ID: '='},
	{Short: 'g', Long: "globoff", Arg: option.NoArgument, ID: '='},
	{Short: '4', Long: "ipv4", Arg: option.NoArgument, ID: '='},
	{Short: '6', Long: "ipv6", Arg: option.NoArgument, ID: '='},
	{Short: '0', Long: "http1.0", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "http1.1", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "http2", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "no-progress-meter", Arg: option.NoArgument, ID: 's'},
	{Short: 'k', Long: "insecure", Arg: option.NoArgument, ID: 0},
	{Short: 'x', Long: "proxy", Arg: option.Required, ID: 'p'},
	{Short: 'V', Long: "version", Arg: option.NoArgument, ID: 0},
	{Short: 'q', Long: "disable", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "path-as-is", Arg: option.NoArgument, ID: '.'},
	{Short: 0, Long: "no-keepalive", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "keepalive-time", Arg: option.Required, ID: '='},
	{Short: 0, Long: "no-sessionid", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "no-alpn", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "no-npn", Arg: option.NoArgument, ID: '='},
	{Short: '1', Long: "tlsv1", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "tlsv1.0", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "tlsv1.1", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "tlsv1.2", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "tlsv1.3", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "ssl-reqd", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "http2-prior-knowledge", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "http3", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "noproxy", Arg: option.Required, ID: '='},
	{Short: 0, Long: "no-styled-output", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "styled-output", Arg: option.NoArgument, ID: '='},
	{Short: 'R', Long: "remote-time", Arg: option.NoArgument, ID: '='},
	{Short: 'j', Long: "junk-session-cookies", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "create-file-mode", Arg: option.Required, ID: '='},
	{Short: 0, Long: "limit-rate", Arg: option.Required, ID: '='},
	{Short: 0, Long: "no-clobber", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "proto", Arg: option.Required, ID: '='},
	{Short: 0, Long: "proto-redir", Arg: option.Required, ID: '='},
	{Short: 0, Long: "proto-default", Arg: option.Required, ID: '='},
	{Short: 0, Long: "fail-early", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "expect100-timeout", Arg: option.Required, ID: '='},
	{Short: 0, Long: "speed-limit", Arg: option.Required, ID: '='},
	{Short: 0, Long: "speed-time", Arg: option.Required, ID: '='},
	{Short: 'a', Long: "append", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "no-compressed", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "disallow-username-in-url", Arg: option.NoArgument, ID: '='},
	{Short: 'Z', Long: "parallel", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "remove-on-error", Arg: option.NoArgument, ID: '='},
	{Short: 0, Long: "tcp-nodelay", Arg: option.NoArgument, ID: '='},
}}

// curlError is an error with curl's number for it.
type curlError struct {
	code int
	msg  string
}

func (e *curlError) Error() string { return e.msg }

func curlFail(code int, format string, a ...any) error {
	return &curlError{code, fmt.Sprintf(format, a...)}
}

func runCurl(p *kernel.Proc) int {
	opts, operands, msg := curlArgs(p)
	if msg != "" {
		p.Errorf("%s", msg)
		curlHint(p)
		return 2
	}
	c := &curl{p: p, network: p.Network(), set: make(map[rune]string)}
	if err := c.applyOptions(opts, operands); err != nil {
		return c.reportError(err)
	}
	if _, ok := c.set['V']; ok {
		fmt.Fprintln(p.Out(), "curl 8.0.0 (atoll)\nProtocols: http https")
		return 0
	}
	if len(c.urls) == 0 {
		p.Errorf("no URL specified!")
		curlHint(p)
		return 2
	}
	if c.network == nil {
		return c.reportError(curlFail(7, "this sandbox has no network; it is allowed host by host when the sandbox is created (--allow HOST)"))
	}
	status := 0
	for i, u := range c.urls {
		output, given := "", i < len(c.outputs)
		if given {
			output = c.outputs[i]
		}
		if err := c.fetchURL(u, output, given); err != nil {
			status = c.reportError(err)
		}
	}
	if file := c.set['c']; file != "" {
		if err := c.jar.write(p, file); err != nil {
			p.Errorf("(23) %s: %s", file, program.Reason(err))
			status = 23
		}
	}
	return status
}

func curlHint(p *kernel.Proc) { p.Errorf("try 'curl --help' or 'curl --manual' for more information") }

// curlArgs parses the arguments; msg is the message of an error in the words of curl.
func curlArgs(p *kernel.Proc) (opts []option.Setting, operands []string, msg string) {
	args := p.Args[1:]
	for len(args) > 0 {
		p.Tick(1)
		a := args[0]
		args = args[1:]
		switch {
		case a == "--":
			return opts, append(operands, args...), ""
		case strings.HasPrefix(a, "--"):
			g, used, fault := curlOptions.ParseLong(a, args)
			if fault != "" {
				return nil, nil, "option " + a + ": " + curlFault(a[2:])
			}
			opts, args = append(opts, g), args[used:]
		case len(a) > 1 && a[0] == '-':
			list, used, fault := curlOptions.ParseShort(a, args)
			if fault != "" {
				return nil, nil, "option " + a + ": " + curlBundleFault(a[1:])
			}
			opts, args = append(opts, list...), args[used:]
		default:
			operands = append(operands, a)
		}
	}
	return opts, operands, ""
}

// curlFault returns the message for a long option that was rejected.
func curlFault(name string) string {
	hits := 0
	for _, o := range curlOptions.Options {
		if o.Long == name && o.Arg == option.Required {
			return "requires parameter"
		}
		if o.Long != "" && strings.HasPrefix(o.Long, name) {
			hits++
		}
	}
	switch hits {
	case 0:
		return "is unknown"
	case 1:
		return "requires parameter"
	}
	return "is ambiguous"
}

func curlBundleFault(bundle string) string {
	for i := range len(bundle) {
		if _, ok := curlOptions.FindShort(rune(bundle[i])); !ok {
			return "is unknown"
		}
	}
	return "requires parameter"
}

// reportError prints an error in the words of curl and returns its number.
func (c *curl) reportError(err error) int {
	var ce *curlError
	if !errors.As(err, &ce) {
		ce = &curlError{1, err.Error()}
	}
	_, silent := c.set['s']
	_, show := c.set['S']
	if !silent || show {
		c.p.Errorf("(%d) %s", ce.code, ce.msg)
	}
	return ce.code
}

// applyOptions applies the options and sorts the operands.
func (c *curl) applyOptions(opts []option.Setting, operands []string) error {
	var cookies []string
	for _, o := range opts {
		c.set[o.Key] = o.Value
		var err error
		switch o.Key {
		case 'H':
			err = c.addHeader(o.Value)
		case 'd', 'R', 'B', 'U', 'J':
			err = c.addData(o.Key, o.Value)
		case 'F', 'E':
			err = c.addForm(o.Key, o.Value)
		case 'o':
			c.outputs = append(c.outputs, o.Value)
		case 'O':
			c.outputs = append(c.outputs, "")
		case 'W':
			c.urls = append(c.urls, o.Value)
		case 'b':
			cookies = append(cookies, o.Value)
		case 'k':
			err = curlFail(2, "option --insecure: certificates are always checked here")
		case 'p':
			err = curlFail(2, "option --proxy: the sandbox's own network is the only way out")
		}
		if err != nil {
			return err
		}
	}
	c.urls = append(c.urls, operands...)
	c.jar = newJar()
	for _, text := range cookies {
		if err := c.jar.load(c.p, text); err != nil {
			return err
		}
	}
	return c.checkConflicts()
}

// checkConflicts returns an error for options that require different methods.
func (c *curl) checkConflicts() error {
	_, get := c.set['G']
	_, head := c.set['I']
	kinds := number.FromBool(c.data != nil && !get) + number.FromBool(c.form != nil) + number.FromBool(c.set['T'] != "") + number.FromBool(head)
	if kinds > 1 {
		return curlFail(2, "You can only select one HTTP request method!")
	}
	return nil
}

func (c *curl) addHeader(line string) error {
	file, ok := strings.CutPrefix(line, "@")
	if !ok {
		c.headers = append(c.headers, line)
		return nil
	}
	b, err := c.p.ReadFile(file)
	if err != nil {
		return curlFail(26, "Failed to open %s", file)
	}
	for l := range strings.Lines(string(b)) {
		if l = strings.TrimRight(l, "\r\n"); l != "" {
			c.headers = append(c.headers, l)
		}
	}
	return nil
}

// parseNumber returns the value of a numeric option.
func (c *curl) parseNumber(key rune, fallback float64) (float64, error) {
	text, ok := c.set[key]
	if !ok {
		return fallback, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 && key != 'M' {
		return 0, curlFail(2, "expected a proper numerical parameter, not %q", text)
	}
	return n, nil
}

// fetchURL fetches one URL, with the retries that --retry allows.
func (c *curl) fetchURL(raw, output string, given bool) error {
	tries, err := c.parseNumber('y', 0)
	if err != nil {
		return err
	}
	delay, err := c.parseNumber('l', 1)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		t := &transfer{curl: c, started: c.p.Now()}
		err := t.run(raw, output, given)
		if t.isTransient(err) && float64(try) < tries {
			c.p.Sleep(time.Duration(min(delay, 3600)*float64(time.Second)), false)
			continue
		}
		werr := t.writeOut(err)
		if err == nil {
			err = werr
		}
		return err
	}
}

// parseTarget parses a URL; one without a scheme is http.
func parseTarget(raw string) (*url.URL, error) {
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || strings.ContainsAny(raw, " \t\r\n") {
		return nil, curlFail(3, "URL using bad/illegal format or missing URL")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, curlFail(1, "Protocol %q not supported or disabled: this curl knows http and https", u.Scheme)
	}
	if u.Path == "" {
		u.Path = "/"
	}
	u.Fragment = ""
	return u, nil
}

// tidyPath removes . and .. from the path of a URL, as curl does without --path-as-is.
func tidyPath(u *url.URL) {
	p := u.EscapedPath()
	if !strings.Contains(p, "/.") {
		return
	}
	clean := path.Clean(p)
	if last := p[strings.LastIndexByte(p, '/')+1:]; (last == "" || last == "." || last == "..") && clean != "/" {
		clean += "/"
	}
	if next, err := u.Parse(clean); err == nil {
		u.Path, u.RawPath = next.Path, next.RawPath
	}
}

// transfer is one attempt to fetch a URL.
type transfer struct {
	*curl
	started   time.Time
	url       *url.URL
	redirects int
	response  *http.Response
	size      int64
	file      string
	headBytes int64
}

// isTransient reports whether a failure may be temporary.
func (t *transfer) isTransient(err error) bool {
	if _, all := t.set['!']; all && err != nil {
		return true
	}
	if t.response != nil {
		switch t.response.StatusCode {
		case 408, 429, 500, 502, 503, 504:
			return true
		}
	}
	var ce *curlError
	return errors.As(err, &ce) && ce.code == 28
}

func (t *transfer) run(raw, output string, given bool) error {
	u, err := parseTarget(raw)
	if err != nil {
		return err
	}
	if _, asIs := t.set['.']; !asIs {
		tidyPath(u)
	}
	limit, err := t.parseNumber('m', 0)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(t.p.Context())
	defer cancel()
	if limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(limit*float64(time.Second)))
		defer stop()
	}
	if err := t.followRedirects(ctx, cancel, u); err != nil {
		return err
	}
	defer t.response.Body.Close()
	return t.writeResponse(cancel, output, given)
}

// writeResponse writes the response to its output.
func (t *transfer) writeResponse(cancel context.CancelFunc, output string, given bool) error {
	_, fail := t.set['f']
	_, failBody := t.set['Y']
	bad := (fail || failBody) && t.response.StatusCode >= 400
	failure := error(nil)
	if bad {
		failure = curlFail(22, "The requested URL returned error: %d", t.response.StatusCode)
		if !failBody {
			return failure
		}
	}
	if limit, err := t.parseNumber('x', 0); err != nil {
		return err
	} else if limit > 0 && float64(t.response.ContentLength) > limit {
		return curlFail(63, "Maximum file size exceeded")
	}
	w, err := t.open(output, given)
	if err != nil {
		return err
	}
	if _, ok := t.set['i']; ok || t.isHead() {
		if _, err := io.WriteString(w, headText(t.response)); err != nil {
			return curlFail(23, "Failure writing output to destination")
		}
	}
	err = t.copyBody(w, cancel)
	if cerr := w.Close(); err == nil && cerr != nil {
		err = curlFail(23, "Failure writing output to destination")
	}
	if err != nil {
		return err
	}
	return failure
}

func (t *transfer) isHead() bool {
	_, head := t.set['I']
	return head
}

// open opens the output for the body.
func (t *transfer) open(output string, given bool) (io.WriteCloser, error) {
	if !given || output == "-" {
		return nopCloser{t.p.Stdout}, nil
	}
	if output == "" {
		output = path.Base(t.url.Path)
		if output == "/" || output == "." {
			return nil, curlFail(23, "Remote file name has no length")
		}
	}
	if dir := t.set['P']; dir != "" {
		output = dir + "/" + output
	}
	if _, ok := t.set['C']; ok {
		if err := t.p.MkdirAll(path.Dir(output), 0o750); err != nil {
			return nil, curlFail(23, "Failed to create directory %s: %s", path.Dir(output), program.Reason(err))
		}
	}
	t.file = output
	h, err := t.p.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, curlFail(23, "Failure writing output to destination: %s: %s", output, program.Reason(err))
	}
	return h, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// copyBody copies the body of the response.
func (t *transfer) copyBody(w io.Writer, cancel context.CancelFunc) error {
	limit, err := t.parseNumber('x', 0)
	if err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		var n int
		var rerr error
		err := t.p.Await(func(ctx context.Context) error {
			defer context.AfterFunc(ctx, cancel)()
			n, rerr = t.response.Body.Read(buf)
			return nil
		})
		if err != nil {
			return err
		}
		t.size += int64(n)
		if limit > 0 && float64(t.size) > limit {
			return curlFail(63, "Maximum file size exceeded")
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return curlFail(23, "Failure writing output to destination: %s", program.Reason(err))
		}
		switch {
		case errors.Is(rerr, io.EOF):
			return nil
		case rerr != nil:
			return t.explainError(rerr)
		}
	}
}

// explainError converts an error of the network into one of curl.
func (t *transfer) explainError(err error) error {
	host := t.url.Hostname()
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, atoll.ErrDenied):
		return curlFail(7, "%v", err)
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return curlFail(28, "Operation timed out after %d milliseconds", t.p.Now().Sub(t.started).Milliseconds())
	case errors.As(err, &dns):
		return curlFail(6, "Could not resolve host: %s", host)
	case errors.As(err, &op) && op.Op == "dial":
		return curlFail(7, "Failed to connect to %s port %s after %d ms: Couldn't connect to server", host, portText(t.url), t.p.Now().Sub(t.started).Milliseconds())
	case errors.Is(err, io.ErrUnexpectedEOF):
		return curlFail(18, "transfer closed with outstanding read data remaining")
	case errors.Is(err, io.EOF):
		return curlFail(52, "Empty reply from server")
	}
	return curlFail(56, "%v", err)
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func portText(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

package command

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
	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// Curl is the HTTP client. It is not among All: a sandbox has it only where
// it may reach hosts, through the network that its kernel was given.
func Curl() Command {
	return Command{
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
  -v, --verbose             say what goes on
  -w, --write-out FORMAT    print this after a transfer
  -u, --user USER:PASSWORD  basic authentication
      --oauth2-bearer TOKEN bearer authentication
  -A, --user-agent NAME     who asks
  -e, --referer URL         where from
  -b, --cookie DATA         cookies: name=value; ... or a file
  -c, --cookie-jar FILE     write the cookies there
  -r, --range RANGE         only these bytes
  -z, --time-cond DATE      only what is newer
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

// curl is one call of it.
type curl struct {
	p       *kernel.Proc
	network kernel.Network
	set     map[rune]string // the last value of each option given
	headers []string
	data    []string // parts of the body, joined by '&'
	isJSON  bool
	form    []formPart
	urls    []string
	outputs []string // -o; "" stands for -O
	jar     *jar
}

var curlOptions = parsing{options: []option{
	{'X', "request", required, 0},
	{'H', "header", required, 0},
	{'d', "data", required, 0},
	{0, "data-ascii", required, 'd'},
	{0, "data-raw", required, 'R'},
	{0, "data-binary", required, 'B'},
	{0, "data-urlencode", required, 'U'},
	{0, "json", required, 'J'},
	{'F', "form", required, 0},
	{0, "form-string", required, 'E'},
	{'G', "get", none, 0},
	{'T', "upload-file", required, 0},
	{'I', "head", none, 0},
	{'i', "include", none, 0},
	{0, "show-headers", none, 'i'},
	{'o', "output", required, 0},
	{'O', "remote-name", none, 0},
	{0, "output-dir", required, 'P'},
	{0, "create-dirs", none, 'C'},
	{'D', "dump-header", required, 0},
	{'L', "location", none, 0},
	{0, "max-redirs", required, 'M'},
	{'f', "fail", none, 0},
	{0, "fail-with-body", none, 'Y'},
	{'s', "silent", none, 0},
	{'S', "show-error", none, 0},
	{'v', "verbose", none, 0},
	{'w', "write-out", required, 0},
	{'u', "user", required, 0},
	{0, "basic", none, '='},
	{0, "oauth2-bearer", required, 'Q'},
	{'A', "user-agent", required, 0},
	{'e', "referer", required, 0},
	{'b', "cookie", required, 0},
	{'c', "cookie-jar", required, 0},
	{'r', "range", required, 0},
	{'z', "time-cond", required, 0},
	{0, "compressed", none, curlPacked},
	{'m', "max-time", required, 0},
	{0, "connect-timeout", required, 't'},
	{0, "retry", required, 'y'},
	{0, "retry-delay", required, 'l'},
	{0, "retry-all-errors", none, '!'},
	{0, "retry-connrefused", none, '!'},
	{0, "retry-max-time", required, '='},
	{0, "max-filesize", required, 'x'},
	{0, "url", required, 'W'},
	{'#', "progress-bar", none, '='},
	{'N', "no-buffer", none, '='},
	{'g', "globoff", none, '='},
	{'4', "ipv4", none, '='},
	{'6', "ipv6", none, '='},
	{'0', "http1.0", none, '='},
	{0, "http1.1", none, '='},
	{0, "http2", none, '='},
	{0, "no-progress-meter", none, 's'},
	{'k', "insecure", none, 0},
	{'x', "proxy", required, 'p'},
	{'V', "version", none, 0},
	{'q', "disable", none, '='},
	{0, "path-as-is", none, '.'},
	{0, "no-keepalive", none, '='},
	{0, "keepalive-time", required, '='},
	{0, "no-sessionid", none, '='},
	{0, "no-alpn", none, '='},
	{0, "no-npn", none, '='},
	{'1', "tlsv1", none, '='},
	{0, "tlsv1.0", none, '='},
	{0, "tlsv1.1", none, '='},
	{0, "tlsv1.2", none, '='},
	{0, "tlsv1.3", none, '='},
	{0, "ssl-reqd", none, '='},
	{0, "http2-prior-knowledge", none, '='},
	{0, "http3", none, '='},
	{0, "noproxy", required, '='},
	{0, "no-styled-output", none, '='},
	{0, "styled-output", none, '='},
	{'R', "remote-time", none, '='},
	{'j', "junk-session-cookies", none, '='},
	{0, "create-file-mode", required, '='},
	{0, "limit-rate", required, '='},
	{0, "no-clobber", none, '='},
	{0, "proto", required, '='},
	{0, "proto-redir", required, '='},
	{0, "proto-default", required, '='},
	{0, "fail-early", none, '='},
	{0, "expect100-timeout", required, '='},
	{0, "speed-limit", required, '='},
	{0, "speed-time", required, '='},
	{'a', "append", none, '='},
	{0, "no-compressed", none, '='},
	{0, "disallow-username-in-url", none, '='},
	{'Z', "parallel", none, '='},
	{0, "remove-on-error", none, '='},
	{0, "tcp-nodelay", none, '='},
}}

// curlError is a failure with curl's own number.
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
	if err := c.take(opts, operands); err != nil {
		return c.report(err)
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
		return c.report(curlFail(7, "this sandbox has no network; it is allowed host by host when the sandbox is created (--allow HOST)"))
	}
	status := 0
	for i, u := range c.urls {
		output, given := "", i < len(c.outputs)
		if given {
			output = c.outputs[i]
		}
		if err := c.transfer(u, output, given); err != nil {
			status = c.report(err)
		}
	}
	if file := c.set['c']; file != "" {
		if err := c.jar.write(p, file); err != nil {
			p.Errorf("(23) %s: %s", file, why(err))
			status = 23
		}
	}
	return status
}

func curlHint(p *kernel.Proc) { p.Errorf("try 'curl --help' or 'curl --manual' for more information") }

// curlArgs reads the arguments, and says in curl's words what is wrong.
func curlArgs(p *kernel.Proc) (opts []given, operands []string, msg string) {
	args := p.Args[1:]
	for len(args) > 0 {
		p.Tick(1)
		a := args[0]
		args = args[1:]
		switch {
		case a == "--":
			return opts, append(operands, args...), ""
		case strings.HasPrefix(a, "--"):
			g, used, fault := curlOptions.longOption(a, args)
			if fault != "" {
				return nil, nil, "option " + a + ": " + curlFault(a[2:])
			}
			opts, args = append(opts, g), args[used:]
		case len(a) > 1 && a[0] == '-':
			list, used, fault := curlOptions.shortOptions(a, args)
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

// curlFault says why a long option was refused.
func curlFault(name string) string {
	hits := 0
	for _, o := range curlOptions.options {
		if o.long == name && o.arg == required {
			return "requires parameter"
		}
		if o.long != "" && strings.HasPrefix(o.long, name) {
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
		if _, ok := curlOptions.short(rune(bundle[i])); !ok {
			return "is unknown"
		}
	}
	return "requires parameter"
}

// report prints an error as curl words it and returns its number.
func (c *curl) report(err error) int {
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

// take sorts the options.
func (c *curl) take(opts []given, operands []string) error {
	var cookies []string
	for _, o := range opts {
		c.set[o.key] = o.value
		var err error
		switch o.key {
		case 'H':
			err = c.addHeader(o.value)
		case 'd', 'R', 'B', 'U', 'J':
			err = c.addData(o.key, o.value)
		case 'F', 'E':
			err = c.addForm(o.key, o.value)
		case 'o':
			c.outputs = append(c.outputs, o.value)
		case 'O':
			c.outputs = append(c.outputs, "")
		case 'W':
			c.urls = append(c.urls, o.value)
		case 'b':
			cookies = append(cookies, o.value)
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
	return c.conflict()
}

// conflict refuses options that ask for different methods.
func (c *curl) conflict() error {
	_, get := c.set['G']
	_, head := c.set['I']
	kinds := b2i(c.data != nil && !get) + b2i(c.form != nil) + b2i(c.set['T'] != "") + b2i(head)
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

// number reads the value of an option that counts.
func (c *curl) number(key rune, fallback float64) (float64, error) {
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

// transfer fetches one URL, again where that was asked for.
func (c *curl) transfer(raw, output string, given bool) error {
	tries, err := c.number('y', 0)
	if err != nil {
		return err
	}
	delay, err := c.number('l', 1)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		t := &transfer{curl: c, started: c.p.Now()}
		err := t.run(raw, output, given)
		if t.passing(err) && float64(try) < tries {
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

// target reads a URL as people write them: without a scheme it is http.
func target(raw string) (*url.URL, error) {
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

// tidyPath takes . and .. out of a URL's path, as curl does unless told not
// to.
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

// transfer is one try at one URL.
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

// passing reports whether a failure may go away by itself.
func (t *transfer) passing(err error) bool {
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
	u, err := target(raw)
	if err != nil {
		return err
	}
	if _, asIs := t.set['.']; !asIs {
		tidyPath(u)
	}
	limit, err := t.number('m', 0)
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
	if err := t.follow(ctx, cancel, u); err != nil {
		return err
	}
	defer t.response.Body.Close()
	return t.deliver(cancel, output, given)
}

// deliver writes the answer where it belongs.
func (t *transfer) deliver(cancel context.CancelFunc, output string, given bool) error {
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
	if limit, err := t.number('x', 0); err != nil {
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
	err = t.body(w, cancel)
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

// open opens what the body goes to.
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
			return nil, curlFail(23, "Failed to create directory %s: %s", path.Dir(output), why(err))
		}
	}
	t.file = output
	h, err := t.p.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, curlFail(23, "Failure writing output to destination: %s: %s", output, why(err))
	}
	return h, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// body streams the body of the answer.
func (t *transfer) body(w io.Writer, cancel context.CancelFunc) error {
	limit, err := t.number('x', 0)
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
			return curlFail(23, "Failure writing output to destination: %s", why(err))
		}
		switch {
		case errors.Is(rerr, io.EOF):
			return nil
		case rerr != nil:
			return t.explain(rerr)
		}
	}
}

// explain turns an error of the network into curl's words and number.
func (t *transfer) explain(err error) error {
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

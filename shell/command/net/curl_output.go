package net

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// writeHead writes the head of a response for -D.
func (t *transfer) writeHead() error {
	text := headText(t.response)
	t.headBytes += int64(len(text))
	file := t.set['D']
	switch file {
	case "":
		return nil
	case "-":
		if _, err := t.p.Stdout.WriteString(text); err != nil {
			return curlFail(23, "Failure writing output to destination")
		}
		return nil
	}
	h, err := t.p.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return curlFail(23, "Failed to open %s: %s", file, program.Reason(err))
	}
	defer h.Close()
	if _, err := h.WriteString(text); err != nil {
		return curlFail(23, "Failure writing %s: %s", file, program.Reason(err))
	}
	return nil
}

// writeOut prints the text of -w after a transfer.
func (t *transfer) writeOut(failure error) error {
	format, ok := t.set['w']
	if !ok {
		return nil
	}
	if file, isFile := strings.CutPrefix(format, "@"); isFile {
		b, err := t.read(file)
		if err != nil {
			return err
		}
		format = strings.NewReplacer("\r", "", "\n", "").Replace(string(b))
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		c := format[i]
		switch {
		case c == '\\' && i+1 < len(format):
			i++
			b.WriteString(unescape(format[i]))
		case c == '%' && strings.HasPrefix(format[i:], "%{") && strings.Contains(format[i:], "}"):
			name, _, _ := strings.Cut(format[i+2:], "}")
			b.WriteString(t.variableValue(name, failure))
			i += len(name) + 2
		case c == '%' && strings.HasPrefix(format[i:], "%%"):
			b.WriteByte('%')
			i++
		default:
			b.WriteByte(c)
		}
	}
	if _, err := t.p.Stdout.WriteString(b.String()); err != nil {
		return curlFail(23, "Failure writing output to destination")
	}
	return nil
}

func unescape(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'r':
		return "\r"
	}
	return "\\" + string(c)
}

// variableValue returns the value of %{name}; that of an unknown name is "".
func (t *transfer) variableValue(name string, failure error) string {
	code := 0
	head := http.Header{}
	if t.response != nil {
		code, head = t.response.StatusCode, t.response.Header
	}
	seconds := t.p.Now().Sub(t.started).Seconds()
	switch name {
	case "http_code", "response_code":
		return fmt.Sprintf("%03d", code)
	case "size_download":
		return strconv.FormatInt(t.size, 10)
	case "size_header":
		return strconv.FormatInt(t.headBytes, 10)
	case "time_total", "time_starttransfer", "time_connect", "time_namelookup", "time_pretransfer":
		return fmt.Sprintf("%.6f", seconds)
	case "speed_download":
		return strconv.FormatInt(int64(float64(t.size)/max(seconds, 1e-6)), 10)
	case "url_effective", "url":
		if t.url != nil {
			return t.url.String()
		}
	case "content_type":
		return head.Get("Content-Type")
	case "num_redirects":
		return strconv.Itoa(t.redirects)
	case "redirect_url":
		if t.response != nil {
			if u, err := t.response.Location(); err == nil {
				return u.String()
			}
		}
	case "scheme":
		if t.url != nil {
			return strings.ToUpper(t.url.Scheme)
		}
	case "http_version":
		if t.response != nil {
			return fmt.Sprintf("%d.%d", t.response.ProtoMajor, t.response.ProtoMinor)
		}
	case "filename_effective":
		return t.file
	case "method":
		if t.response != nil {
			return t.response.Request.Method
		}
	case "exitcode", "errormsg":
		return failureText(name, failure)
	}
	return ""
}

func failureText(name string, failure error) string {
	ce, ok := failure.(*curlError) //nolint:errorlint // never wrapped
	switch {
	case name == "errormsg" && failure != nil:
		return failure.Error()
	case name == "exitcode" && ok:
		return strconv.Itoa(ce.code)
	case name == "exitcode":
		return "0"
	}
	return ""
}

// cookieJar holds cookies, each with its host.
type cookieJar struct{ list []*http.Cookie }

func newJar() *cookieJar { return &cookieJar{} }

// load loads the cookies of -b: "a=1; b=2" for every host, or a file that -c wrote.
func (j *cookieJar) load(p *kernel.Proc, text string) error {
	if strings.Contains(text, "=") {
		for _, pair := range strings.Split(text, ";") {
			if k, v, ok := strings.Cut(strings.TrimSpace(pair), "="); ok {
				j.list = append(j.list, &http.Cookie{Name: k, Value: v})
			}
		}
		return nil
	}
	b, err := p.ReadFile(text)
	if err != nil {
		return nil //nolint:nilerr // like curl: a missing file is an empty jar
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimPrefix(strings.TrimRight(line, "\r\n"), "#HttpOnly_"), "\t")
		if len(f) != 7 || strings.HasPrefix(f[0], "#") {
			continue
		}
		c := &http.Cookie{Domain: f[0], Path: f[2], Secure: f[3] == "TRUE", Name: f[5], Value: f[6]}
		if n, err := strconv.ParseInt(f[4], 10, 64); err == nil && n > 0 {
			c.Expires = time.Unix(n, 0)
		}
		j.list = append(j.list, c)
	}
	return nil
}

// storeCookies stores the cookies of a response.
func (j *cookieJar) storeCookies(u *url.URL, r *http.Response, now time.Time) {
	for _, c := range r.Cookies() {
		if c.Domain == "" || !domainMatch(u.Hostname(), strings.TrimPrefix(c.Domain, ".")) {
			c.Domain = u.Hostname()
		}
		if c.MaxAge > 0 {
			c.Expires = now.Add(time.Duration(c.MaxAge) * time.Second)
		}
		if c.MaxAge < 0 {
			c.Expires = time.Unix(1, 0)
		}
		if c.Path == "" {
			c.Path = "/"
		}
		kept := j.list[:0]
		for _, old := range j.list {
			if old.Name != c.Name || old.Domain != c.Domain || old.Path != c.Path {
				kept = append(kept, old)
			}
		}
		j.list = append(kept, c)
	}
}

func domainMatch(host, domain string) bool {
	return host == domain || strings.HasSuffix(host, "."+domain)
}

// cookieHeader returns the cookies for a URL as a header value.
func (j *cookieJar) cookieHeader(u *url.URL, now time.Time) string {
	var pairs []string
	for _, c := range j.list {
		host := c.Domain == "" || domainMatch(u.Hostname(), strings.TrimPrefix(c.Domain, "."))
		fresh := c.Expires.IsZero() || c.Expires.After(now)
		if host && fresh && strings.HasPrefix(u.Path, c.Path) && (!c.Secure || u.Scheme == "https") {
			pairs = append(pairs, c.Name+"="+c.Value)
		}
	}
	return strings.Join(pairs, "; ")
}

// write saves the jar in the Netscape format.
func (j *cookieJar) write(p *kernel.Proc, file string) error {
	var b strings.Builder
	b.WriteString("# Netscape HTTP Cookie File\n# https://curl.se/docs/http-cookies.html\n# This file was generated by libcurl! Edit at your own risk.\n\n")
	flag := func(on bool) string {
		if on {
			return "TRUE"
		}
		return "FALSE"
	}
	for _, c := range slices.Backward(j.list) { // the newest first
		if c.Domain == "" {
			continue
		}
		when := int64(0)
		if !c.Expires.IsZero() {
			when = c.Expires.Unix()
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", c.Domain, flag(strings.HasPrefix(c.Domain, ".")), c.Path, flag(c.Secure), when, c.Name, c.Value)
	}
	if file == "-" {
		_, err := p.Stdout.WriteString(b.String())
		return err
	}
	return p.WriteFile(file, []byte(b.String()), 0o644)
}

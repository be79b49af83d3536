package net

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// formPart is a part of a form: one -F.
type formPart struct {
	name, filename, kind string
	content              []byte
}

// addData adds a part of the body; key is the option.
func (c *curl) addData(key rune, value string) error {
	switch key {
	case 'J':
		c.isJSON = true
		key = 'B'
	case 'U':
		text, err := c.encodeData(value)
		c.data = append(c.data, text)
		return err
	}
	file, ok := strings.CutPrefix(value, "@")
	if !ok || key == 'R' {
		c.data = append(c.data, value)
		return nil
	}
	b, err := c.read(file)
	if err != nil {
		return err
	}
	text := string(b)
	if key == 'd' {
		text = strings.NewReplacer("\r", "", "\n", "").Replace(text)
	}
	c.data = append(c.data, text)
	return nil
}

// read returns the content of a file, or of standard input for "-".
func (c *curl) read(file string) ([]byte, error) {
	if file == "-" {
		return c.p.ReadAll(c.p.Stdin)
	}
	b, err := c.p.ReadFile(file)
	if err != nil {
		return nil, curlFail(26, "Failed to open %s: %s", file, program.Reason(err))
	}
	return b, nil
}

// encodeData encodes the value of --data-urlencode: content, =content, name=content, @file or
// name@file.
func (c *curl) encodeData(value string) (string, error) {
	i := strings.IndexAny(value, "=@")
	if i < 0 {
		return url.QueryEscape(value), nil
	}
	name, content := value[:i], value[i+1:]
	if value[i] == '@' {
		b, err := c.read(content)
		if err != nil {
			return "", err
		}
		content = string(b)
	}
	content = url.QueryEscape(content)
	if name != "" {
		content = name + "=" + content
	}
	return content, nil
}

func (c *curl) addForm(key rune, value string) error {
	name, content, ok := strings.Cut(value, "=")
	if !ok {
		return curlFail(26, "Illegally formatted input field %q: it must be NAME=CONTENT", value)
	}
	part := formPart{name: name, content: []byte(content)}
	if key == 'F' && content != "" && (content[0] == '@' || content[0] == '<') {
		fields := strings.Split(content[1:], ";")
		b, err := c.read(fields[0])
		if err != nil {
			return err
		}
		part.content = b
		if content[0] == '@' {
			part.filename, part.kind = path.Base(fields[0]), "application/octet-stream"
		}
		for _, f := range fields[1:] {
			k, v, _ := strings.Cut(f, "=")
			switch k {
			case "type":
				part.kind = v
			case "filename":
				part.filename = v
			}
		}
	}
	c.form = append(c.form, part)
	return nil
}

// newRequest returns the first request to a URL.
func (t *transfer) newRequest(ctx context.Context, u *url.URL) (*http.Request, error) {
	method, body, kind, err := t.buildPayload(u)
	if err != nil {
		return nil, err
	}
	if m := t.set['X']; m != "" {
		method = m
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, curlFail(3, "URL using bad/illegal format: %v", err)
	}
	h := req.Header
	h.Set("User-Agent", "curl/8.0.0")
	h.Set("Accept", "*/*")
	if kind != "" {
		h.Set("Content-Type", kind)
	}
	if t.isJSON {
		h.Set("Content-Type", "application/json")
		h.Set("Accept", "application/json")
	}
	t.setHeaders(req, u)
	return req, t.ownHeaders(req)
}

// setHeaders sets the headers that have options of their own.
func (t *transfer) setHeaders(req *http.Request, u *url.URL) {
	h := req.Header
	for key, name := range map[rune]string{'A': "User-Agent", 'e': "Referer"} {
		if v, ok := t.set[key]; ok {
			h.Set(name, strings.TrimSuffix(v, ";auto"))
		}
	}
	if v := t.set['r']; v != "" {
		h.Set("Range", "bytes="+v)
	}
	if v := t.set['Q']; v != "" {
		h.Set("Authorization", "Bearer "+v)
	}
	if _, ok := t.set[curlPacked]; ok {
		h.Set("Accept-Encoding", "gzip, deflate")
	}
	if user := u.User; user != nil {
		pass, _ := user.Password()
		req.SetBasicAuth(user.Username(), pass)
		u.User, req.URL.User = nil, nil
	}
	if v, ok := t.set['u']; ok {
		name, pass, _ := strings.Cut(v, ":")
		req.SetBasicAuth(name, pass)
	}
	if v := t.set['z']; v != "" {
		for _, layout := range []string{time.RFC1123, time.RFC1123Z, time.RFC3339, "2006-01-02", "2006-01-02 15:04:05"} {
			if when, err := time.Parse(layout, strings.TrimPrefix(v, "-")); err == nil {
				h.Set("If-Modified-Since", when.UTC().Format(http.TimeFormat))
				break
			}
		}
	}
	if cookies := t.jar.cookieHeader(u, t.p.Now()); cookies != "" {
		h.Set("Cookie", cookies)
	}
}

// ownHeaders applies -H: "Name: value" sets a header, "Name:" removes it, "Name;" sets an empty one.
func (t *transfer) ownHeaders(req *http.Request) error {
	seen := make(map[string]bool)
	for _, line := range t.headers {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			name, ok = strings.CutSuffix(line, ";")
			if !ok {
				continue
			}
			req.Header.Set(strings.TrimSpace(name), "")
			continue
		}
		name, value = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		if strings.ContainsAny(name+value, "\r\n") {
			return curlFail(43, "a header must not hold a line break: %q", line)
		}
		switch {
		case name == "Host":
			req.Host = value
		case value == "":
			req.Header[name] = nil
		case seen[name]:
			req.Header.Add(name, value)
		default:
			req.Header.Set(name, value)
		}
		seen[name] = true
	}
	return nil
}

// buildPayload returns the method, the body and its content type.
func (t *transfer) buildPayload(u *url.URL) (method string, body io.Reader, kind string, err error) {
	_, get := t.set['G']
	text := strings.Join(t.data, "&")
	if t.isJSON {
		text = strings.Join(t.data, "")
	}
	switch {
	case t.isHead():
		return http.MethodHead, nil, "", nil
	case get:
		if text != "" {
			if u.RawQuery != "" {
				u.RawQuery += "&"
			}
			u.RawQuery += text
		}
	case t.form != nil:
		body, kind, err = t.buildMultipart()
		return http.MethodPost, body, kind, err
	case t.data != nil:
		return http.MethodPost, strings.NewReader(text), "application/x-www-form-urlencoded", nil
	case t.set['T'] != "":
		b, err := t.read(t.set['T'])
		if strings.HasSuffix(u.Path, "/") {
			u.Path += path.Base(t.set['T'])
		}
		return http.MethodPut, bytes.NewReader(b), "", err
	}
	return http.MethodGet, nil, "", nil
}

func (t *transfer) buildMultipart() (io.Reader, string, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, part := range t.form {
		h := make(textproto.MIMEHeader)
		disposition := fmt.Sprintf("form-data; name=%q", part.name)
		if part.filename != "" {
			disposition += fmt.Sprintf("; filename=%q", part.filename)
		}
		h.Set("Content-Disposition", disposition)
		if part.kind != "" {
			h.Set("Content-Type", part.kind)
		}
		pw, err := w.CreatePart(h)
		if err == nil {
			_, err = pw.Write(part.content)
		}
		if err != nil {
			return nil, "", err
		}
	}
	return &b, w.FormDataContentType(), w.Close()
}

// followRedirects sends the request and follows redirects as far as -L allows.
func (t *transfer) followRedirects(ctx context.Context, cancel context.CancelFunc, u *url.URL) error {
	_, wanted := t.set['L']
	most, err := t.parseNumber('M', 50)
	if err != nil {
		return err
	}
	t.url = u
	req, err := t.newRequest(ctx, u)
	if err != nil {
		return err
	}
	for {
		if err := t.roundTrip(req, cancel); err != nil {
			return err
		}
		t.jar.storeCookies(t.url, t.response, t.p.Now())
		if err := t.writeHead(); err != nil {
			return err
		}
		next, err := t.response.Location()
		if !wanted || err != nil || t.response.StatusCode/100 != 3 {
			return t.decodeBody(cancel)
		}
		if err := t.response.Body.Close(); err != nil {
			return t.explainError(err)
		}
		if t.redirects++; most >= 0 && float64(t.redirects) > most {
			return curlFail(47, "Maximum (%d) redirects followed", int(most))
		}
		if req, err = t.newRedirectRequest(ctx, req, next); err != nil {
			return err
		}
	}
}

// newRedirectRequest returns the request for a redirect. Credentials go only to the host they were
// given for.
func (t *transfer) newRedirectRequest(ctx context.Context, old *http.Request, next *url.URL) (*http.Request, error) {
	next.Fragment = ""
	method, status := old.Method, t.response.StatusCode
	posted := t.data != nil || t.form != nil
	keep := status != 303 && !(posted && (status == 301 || status == 302))
	if !keep && t.set['X'] == "" && method != http.MethodHead {
		method = http.MethodGet
	}
	var body io.Reader
	if keep && old.GetBody != nil {
		b, err := old.GetBody()
		if err != nil {
			return nil, err
		}
		body = b
	}
	req, err := http.NewRequestWithContext(ctx, method, next.String(), body)
	if err != nil {
		return nil, curlFail(3, "redirect to a bad URL: %v", err)
	}
	req.Header = old.Header.Clone()
	if body == nil {
		req.Header.Del("Content-Type")
	}
	if next.Host != t.url.Host || next.Scheme != t.url.Scheme {
		req.Header.Del("Authorization")
	} else if old.Host != "" {
		req.Host = old.Host
	}
	req.Header.Del("Cookie")
	if cookies := t.jar.cookieHeader(next, t.p.Now()); cookies != "" {
		req.Header.Set("Cookie", cookies)
	}
	t.url = next
	return req, nil
}

// roundTrip sends one request and waits for the head of its response.
func (t *transfer) roundTrip(req *http.Request, cancel context.CancelFunc) error {
	wait, err := t.parseNumber('t', 0)
	if err != nil {
		return err
	}
	t.printVerbose("> %s %s HTTP/1.1\n> Host: %s\n%s>\n", req.Method, req.URL.RequestURI(), req.URL.Host, headerLines("> ", req.Header))
	err = t.p.Await(func(ctx context.Context) error {
		defer context.AfterFunc(ctx, cancel)()
		if wait > 0 {
			timer := time.AfterFunc(time.Duration(wait*float64(time.Second)), cancel)
			defer timer.Stop()
		}
		res, err := t.network.RoundTrip(req) //nolint:bodyclose // it is read and closed as t.response
		t.response = res
		return err
	})
	if errors.Is(err, context.Canceled) && wait > 0 {
		err = context.DeadlineExceeded
	}
	if err != nil {
		t.response = nil
		return t.explainError(err)
	}
	t.printVerbose("< %s", strings.ReplaceAll(strings.TrimSuffix(headText(t.response), "\r\n"), "\r\n", "\n< "))
	t.printVerbose("\n")
	return nil
}

// printVerbose prints a line of -v.
func (t *transfer) printVerbose(format string, a ...any) {
	if _, ok := t.set['v']; ok {
		fmt.Fprintf(t.p.Stderr, format, a...)
	}
}

// decodeBody installs the decoder of a compressed body that was requested by --compressed.
func (t *transfer) decodeBody(cancel context.CancelFunc) error {
	if _, ok := t.set[curlPacked]; !ok {
		return nil
	}
	var r io.ReadCloser
	err := t.p.Await(func(ctx context.Context) error {
		defer context.AfterFunc(ctx, cancel)()
		var err error
		switch t.response.Header.Get("Content-Encoding") {
		case "gzip":
			r, err = gzip.NewReader(t.response.Body)
		case "deflate":
			r, err = zlib.NewReader(t.response.Body)
		default:
			r = t.response.Body
		}
		return err
	})
	if err != nil {
		return curlFail(61, "the body is not encoded as its header says: %v", err)
	}
	t.response.Body = struct {
		io.Reader
		io.Closer
	}{r, t.response.Body}
	return nil
}

func headerLines(prefix string, h http.Header) string {
	var b strings.Builder
	for _, k := range sortedKeys(h) {
		for _, v := range h[k] {
			b.WriteString(prefix + k + ": " + v + "\n")
		}
	}
	return b.String()
}

func sortedKeys(h http.Header) []string {
	keys := make([]string, 0, len(h))
	for k := range h {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// headText returns the head of a response as received, except for the order of its lines.
func headText(r *http.Response) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/%d.%d %s\r\n", r.ProtoMajor, r.ProtoMinor, r.Status)
	b.WriteString(strings.ReplaceAll(headerLines("", r.Header), "\n", "\r\n"))
	for _, e := range r.TransferEncoding {
		b.WriteString("Transfer-Encoding: " + e + "\r\n")
	}
	b.WriteString("\r\n")
	return b.String()
}

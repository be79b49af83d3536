package proxy

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// fault describes to the client why a request did not reach a sandbox.
type fault struct {
	status int
	reason string // for programs
	name   Name   // empty if the request named no sandbox
	title  string
	detail string
	hint   string
	ports  []int // open ones, offered as links
	wait   bool  // temporary: browsers retry
}

// newMisdirectedFault returns the fault for a name that belongs to no sandbox. The format of
// names is shown only without access control.
func (p *Proxy) newMisdirectedFault(host string) *fault {
	f := &fault{
		status: http.StatusMisdirectedRequest, reason: "misdirected", title: "No sandbox has this name",
		detail: fmt.Sprintf("%q is not a name of a sandbox here.", truncateText(host)),
		hint:   "Names are PROJECT and PORT-PROJECT, followed by a domain of this proxy.",
	}
	if p.Access == nil {
		d := p.Names.effectiveDomains()[0]
		f.hint = "Names are PROJECT." + d + " and PORT-PROJECT." + d + "."
	}
	return f
}

func newNotForwardedFault(method string) *fault {
	return &fault{
		status: http.StatusBadRequest, reason: "bad_request", title: "This request can’t be forwarded",
		detail: fmt.Sprintf("%s needs a path in the sandbox.", truncateText(method)),
	}
}

func newNotFoundFault(n Name) *fault {
	return &fault{
		status: http.StatusNotFound, reason: "not_found", name: n, title: "No sandbox called " + n.Project,
		detail: "It does not exist, or it was removed.",
		hint:   "atoll ls lists the sandboxes; atoll up in a project creates one.",
	}
}

func newNotRunningFault(n Name, s atoll.State) *fault {
	f := &fault{
		status: http.StatusServiceUnavailable, reason: "not_running", name: n, title: n.Project + " is not running",
		detail: "The sandbox is " + string(s) + ".", hint: "atoll start " + n.Project, wait: true,
	}
	switch s {
	case atoll.Starting:
		f.hint = ""
	case atoll.Paused:
		f.hint = "atoll resume " + n.Project
	case atoll.Failed:
		f.detail, f.hint = "The sandbox has failed.", "atoll inspect "+n.Project
	}
	return f
}

func newNoPortFault(n Name) *fault {
	return &fault{
		status: http.StatusServiceUnavailable, reason: "no_port", name: n, title: "Nothing listens in " + n.Project + " yet",
		detail: "The sandbox is running, but no program in it listens on a port.",
		hint:   "Start a server in the sandbox; this page shows it as soon as it listens.", wait: true,
	}
}

func newPortClosedFault(tr *routedRequest, open []int) *fault {
	f := &fault{
		status: http.StatusServiceUnavailable, reason: "port_closed", name: tr.name, ports: open, wait: true,
		title:  fmt.Sprintf("Nothing listens on port %d of %s", tr.port, tr.name.Project),
		detail: "The sandbox is running, but no program in it listens on this port.",
	}
	if len(open) > 0 {
		f.hint = "These ports are open:"
	}
	return f
}

func newBadAnswerFault(tr *routedRequest, err error) *fault {
	f := &fault{
		status: http.StatusBadGateway, reason: "bad_answer", name: tr.name,
		title:  fmt.Sprintf("Port %d of %s gave no valid HTTP response", tr.port, tr.name.Project),
		detail: "A program listens there, but it does not answer like a web server.",
	}
	if errors.Is(err, errProtocol) {
		f.detail = "Its response switches to a protocol other than WebSocket."
	}
	return f
}

func newUnavailableFault(n Name, err error) *fault {
	f := &fault{
		status: http.StatusBadGateway, reason: "unavailable", name: n, title: n.Project + " can’t be reached",
		detail: "The sandbox does not answer at the moment.", wait: true,
	}
	if errors.Is(err, atoll.ErrUnsupported) {
		f.status, f.reason, f.wait = http.StatusNotImplemented, "unsupported", false
		f.title, f.detail = n.Project+" has no ports", "Sandboxes of this driver run no real programs, so a browser can’t reach them."
	}
	return f
}

func newTooManyFault(n Name) *fault {
	return &fault{
		status: http.StatusServiceUnavailable, reason: "too_many", name: n, title: "Too many requests to " + n.Project,
		detail: "Close some of its open pages and streams.",
	}
}

func newCrossOriginFault(n Name) *fault {
	return &fault{
		status: http.StatusForbidden, reason: "cross_origin", name: n, title: "A page of another origin sent this",
		detail: "Pages of other origins may link to a sandbox; only its own pages may send other requests.",
	}
}

func newNoAccessFault(n Name, why string) *fault {
	return &fault{
		status: http.StatusUnauthorized, reason: "no_access", name: n, title: "You need a link",
		detail: "This sandbox needs an access link, and " + why + ".",
		hint:   "Ask the owner of the sandbox for a new link.",
	}
}

// truncateText shortens text of a client so that it can be shown.
func truncateText(s string) string {
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}

//go:embed page.html
var pageText string

// pageTemplate is parsed once; it holds no data.
var pageTemplate = template.Must(template.New("page").Parse(pageText))

// portLink is a link to a port on a page.
type portLink struct {
	Port int
	URL  string
}

// pageData is the input of the page template.
type pageData struct {
	Status        int
	Title, Detail string
	Hint          string
	Links         []portLink
	Wait          int // seconds until a browser retries; 0: never
}

// problem is a fault in the format for programs: RFC 9457.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Reason string `json:"reason"`
	Ports  []int  `json:"ports,omitempty"`
}

// retrySeconds is the time after which a browser tries again.
const retrySeconds = 2

// writeFault responds to a request that does not reach a sandbox.
func (p *Proxy) writeFault(w *writer, r *http.Request, f *fault) {
	_ = w.control.SetReadDeadline(time.Now().Add(5 * time.Second)) // the rest of the body is not needed
	h := w.Header()
	clear(h)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Vary", "Accept")
	h.Set("Atoll-Reason", f.reason)
	if f.wait {
		h.Set("Retry-After", strconv.Itoa(retrySeconds))
	}
	var body []byte
	switch accept := r.Header.Get("Accept"); {
	case strings.Contains(accept, "text/html"):
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		body = p.renderPage(r, f)
	case strings.Contains(accept, "json"):
		h.Set("Content-Type", "application/problem+json")
		body, _ = json.Marshal(problem{f.title, f.status, f.detail, f.reason, f.ports}) // plain data
		body = append(body, '\n')
	default:
		h.Set("Content-Type", "text/plain; charset=utf-8")
		body = []byte(f.renderText())
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may have disconnected
	}
}

// renderText renders a fault as plain text.
func (f *fault) renderText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", f.title, f.detail)
	if f.hint != "" {
		fmt.Fprintln(&b, f.hint)
	}
	for _, port := range f.ports {
		fmt.Fprintf(&b, "  %d\n", port)
	}
	return b.String()
}

// renderPage renders a fault as an HTML page.
func (p *Proxy) renderPage(r *http.Request, f *fault) []byte {
	v := pageData{Status: f.status, Title: f.title, Detail: f.detail, Hint: f.hint}
	if f.wait && r.Method == http.MethodGet {
		v.Wait = retrySeconds
	}
	for _, port := range f.ports {
		if host, err := p.Names.hostInDomain(f.name.Domain, f.name.Project, port); err == nil {
			v.Links = append(v.Links, portLink{port, "//" + host + p.clientPort(r)})
		}
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, v); err != nil {
		return []byte(template.HTMLEscapeString(f.renderText()))
	}
	return b.Bytes()
}

// clientPort returns ":PORT" of the URL that the client sees, or an empty string.
func (p *Proxy) clientPort(r *http.Request) string {
	host := r.Host
	if outer := r.Header.Get("X-Forwarded-Host"); outer != "" && r.Context().Value(routedKey{}) != nil {
		host = outer // the request was rewritten
	}
	if _, port, ok := strings.Cut(host, ":"); ok && isPort(port) {
		return ":" + port
	}
	return ""
}

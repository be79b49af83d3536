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

// fault is why a request did not reach a sandbox, for whoever sent it.
type fault struct {
	status int
	reason string // for programs
	name   Name   // empty where the request named nothing of ours
	title  string
	detail string
	hint   string
	ports  []int // open ones, offered as links
	wait   bool  // it can pass by itself: browsers look again
}

// misdirected is for requests to names of nobody here. How names are made is told
// those who may know it.
func (p *Proxy) misdirected(host string) *fault {
	f := &fault{
		status: http.StatusMisdirectedRequest, reason: "misdirected", title: "No sandbox has this name",
		detail: fmt.Sprintf("%q is not a name of a sandbox here.", clip(host)),
		hint:   "Names are PROJECT and PORT-PROJECT, followed by a domain of this proxy.",
	}
	if p.Access == nil {
		d := p.Names.domains()[0]
		f.hint = "Names are PROJECT." + d + " and PORT-PROJECT." + d + "."
	}
	return f
}

func notForwarded(method string) *fault {
	return &fault{
		status: http.StatusBadRequest, reason: "bad_request", title: "This request can’t be passed on",
		detail: fmt.Sprintf("%s needs the path of something in the sandbox.", clip(method)),
	}
}

func unknown(n Name) *fault {
	return &fault{
		status: http.StatusNotFound, reason: "not_found", name: n, title: "No sandbox called " + n.Project,
		detail: "There is none, or it has been removed.",
		hint:   "atoll ls shows those that are there; atoll up in a project makes its own.",
	}
}

func notRunning(n Name, s atoll.State) *fault {
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

func noPort(n Name) *fault {
	return &fault{
		status: http.StatusServiceUnavailable, reason: "no_port", name: n, title: "Nothing listens in " + n.Project + " yet",
		detail: "The sandbox runs, but no program in it has opened a port.",
		hint:   "Start a server inside; this page shows it as soon as it listens.", wait: true,
	}
}

func portClosed(tr *trip, open []int) *fault {
	f := &fault{
		status: http.StatusServiceUnavailable, reason: "port_closed", name: tr.name, ports: open, wait: true,
		title:  fmt.Sprintf("Nothing listens on port %d of %s", tr.port, tr.name.Project),
		detail: "The sandbox runs, but no program in it has this port open.",
	}
	if len(open) > 0 {
		f.hint = "These ports are open:"
	}
	return f
}

func silent(tr *trip, err error) *fault {
	f := &fault{
		status: http.StatusBadGateway, reason: "bad_answer", name: tr.name,
		title:  fmt.Sprintf("Port %d of %s gave no proper answer", tr.port, tr.name.Project),
		detail: "Something listens there, but it did not answer as a web server does.",
	}
	if errors.Is(err, errProtocol) {
		f.detail = "Its answer switches to another protocol than WebSocket."
	}
	return f
}

func broken(n Name, err error) *fault {
	f := &fault{
		status: http.StatusBadGateway, reason: "unavailable", name: n, title: n.Project + " can’t be asked",
		detail: "The sandbox does not answer at the moment.", wait: true,
	}
	if errors.Is(err, atoll.ErrUnsupported) {
		f.status, f.reason, f.wait = http.StatusNotImplemented, "unsupported", false
		f.title, f.detail = n.Project+" has no ports", "Sandboxes of its kind can’t be reached by a browser: they run no real programs."
	}
	return f
}

func crowded(n Name) *fault {
	return &fault{
		status: http.StatusServiceUnavailable, reason: "too_many", name: n, title: "Too many requests to " + n.Project,
		detail: "Close some of the pages and streams that it has open.",
	}
}

func crossOrigin(n Name) *fault {
	return &fault{
		status: http.StatusForbidden, reason: "cross_origin", name: n, title: "A page of another origin sent this",
		detail: "Pages of the web and of other sandboxes may link to a sandbox; only its own may send it more.",
	}
}

func noAccess(n Name, why string) *fault {
	return &fault{
		status: http.StatusUnauthorized, reason: "no_access", name: n, title: "You need a link",
		detail: "This sandbox opens to those who were given a link, and " + why + ".",
		hint:   "Ask its owner for a new one.",
	}
}

// clip makes a stranger's text short enough to be shown.
func clip(s string) string {
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}

//go:embed page.html
var pageText string

// pageTemplate is read once; it holds no data.
var pageTemplate = template.Must(template.New("page").Parse(pageText))

// link is a port on a page.
type link struct {
	Port int
	URL  string
}

// view is what the template sees.
type view struct {
	Status        int
	Title, Detail string
	Hint          string
	Links         []link
	Wait          int // seconds until a browser looks again; 0: it does not
}

// problem is a fault for programs: RFC 9457.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Reason string `json:"reason"`
	Ports  []int  `json:"ports,omitempty"`
}

// again is how many seconds later a browser looks whether it works now.
const again = 2

// refuse answers a request that does not reach a sandbox.
func (p *Proxy) refuse(w *writer, r *http.Request, f *fault) {
	_ = w.control.SetReadDeadline(time.Now().Add(5 * time.Second)) // nobody waits for the rest of its body
	h := w.Header()
	clear(h)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Vary", "Accept")
	h.Set("Atoll-Reason", f.reason)
	if f.wait {
		h.Set("Retry-After", strconv.Itoa(again))
	}
	var body []byte
	switch accept := r.Header.Get("Accept"); {
	case strings.Contains(accept, "text/html"):
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		body = p.page(r, f)
	case strings.Contains(accept, "json"):
		h.Set("Content-Type", "application/problem+json")
		body, _ = json.Marshal(problem{f.title, f.status, f.detail, f.reason, f.ports}) // plain data
		body = append(body, '\n')
	default:
		h.Set("Content-Type", "text/plain; charset=utf-8")
		body = []byte(f.text())
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // who is gone needs no page
	}
}

// text is a fault in a terminal.
func (f *fault) text() string {
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

// page is a fault in a browser.
func (p *Proxy) page(r *http.Request, f *fault) []byte {
	v := view{Status: f.status, Title: f.title, Detail: f.detail, Hint: f.hint}
	if f.wait && r.Method == http.MethodGet {
		v.Wait = again
	}
	for _, port := range f.ports {
		if host, err := p.Names.hostIn(f.name.Domain, f.name.Project, port); err == nil {
			v.Links = append(v.Links, link{port, "//" + host + p.portOf(r)})
		}
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, v); err != nil {
		return []byte(template.HTMLEscapeString(f.text()))
	}
	return b.Bytes()
}

// portOf is ":PORT" of the URL that the client sees, or empty.
func (p *Proxy) portOf(r *http.Request) string {
	host := r.Host
	if outer := r.Header.Get("X-Forwarded-Host"); outer != "" && r.Context().Value(tripKey{}) != nil {
		host = outer // a request that has been rewritten
	}
	if _, port, ok := strings.Cut(host, ":"); ok && isPort(port) {
		return ":" + port
	}
	return ""
}

package git

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// httpTransport reaches a repository by git's protocol over HTTP, of version 2 or 0 for fetches and 0 for pushes.
type httpTransport struct {
	p      *kernel.Proc
	base   string
	auth   string // header Authorization
	v2     bool
	caps   map[string]string
	known  map[id]bool // commits of the other side's refs
	header []string    // http.extraHeader
}

func newHTTPTransport(p *kernel.Proc, conf config, raw string) (*httpTransport, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return nil, newFatal("unable to access '%s': URL using bad/illegal format or missing URL", raw)
	}
	t := &httpTransport{p: p, caps: make(map[string]string), known: make(map[id]bool), header: conf.all("http.extraheader")}
	if u.User != nil {
		password, _ := u.User.Password()
		t.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
		u.User = nil
	}
	t.base = strings.TrimRight(u.String(), "/")
	if p.Network() == nil {
		return nil, newFatal("unable to access '%s/': this sandbox has no network; it is allowed host by host when the sandbox is created (--allow HOST)", t.base)
	}
	return t, nil
}

// bodyReader reads the body of a response; it waits outside the process's time slice.
type bodyReader struct {
	p      *kernel.Proc
	body   io.ReadCloser
	cancel context.CancelFunc
}

func (b *bodyReader) Read(buf []byte) (n int, err error) {
	buf = buf[:min(len(buf), 64<<10)]
	werr := b.p.Await(func(ctx context.Context) error {
		defer context.AfterFunc(ctx, b.cancel)()
		n, err = b.body.Read(buf)
		return nil
	})
	b.p.Tick(1 + n>>6)
	if werr != nil {
		err = werr
	}
	return n, err
}

func (b *bodyReader) Close() error {
	b.cancel()
	return b.body.Close()
}

// send sends a request and returns the body of a successful response.
func (t *httpTransport) send(method, address, kind string, body []byte, header map[string]string) (*bodyReader, *http.Response, error) {
	ctx, cancel := context.WithCancel(t.p.Context())
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		cancel()
		return nil, nil, newFatal("unable to access '%s/': URL using bad/illegal format or missing URL", t.base)
	}
	req.Header.Set("User-Agent", "git/2.39.5 (atoll)")
	for _, line := range t.header {
		name, value, _ := strings.Cut(line, ":")
		req.Header.Set(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if t.auth != "" {
		req.Header.Set("Authorization", t.auth)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	if kind != "" {
		req.Header.Set("Content-Type", "application/x-"+kind+"-request")
		req.Header.Set("Accept", "application/x-"+kind+"-result")
	}
	var res *http.Response
	err = t.p.Await(func(ctx context.Context) error {
		defer context.AfterFunc(ctx, cancel)()
		var err error
		res, err = t.p.Network().RoundTrip(req) //nolint:bodyclose // bodyReader.Close closes it
		return err
	})
	if err != nil {
		cancel()
		return nil, nil, newFatal("unable to access '%s/': %s", t.base, err)
	}
	return &bodyReader{t.p, res.Body, cancel}, res, nil
}

// checkResponse returns an error for a response that is no success.
func (t *httpTransport) checkResponse(res *http.Response) error {
	switch res.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized:
		return newFatal("Authentication failed for '%s/': put USER:TOKEN into the URL, or let the sandbox's network rules add a credential", t.base)
	case http.StatusNotFound:
		return newFatal("repository '%s/' not found", t.base)
	}
	return newFatal("unable to access '%s/': The requested URL returned error: %d", t.base, res.StatusCode)
}

// discover reads the refs or the capabilities of a service. Redirects of this first request change the base.
func (t *httpTransport) discover(service, version string) (*bodyReader, error) {
	for range 5 {
		address := t.base + "/info/refs?service=" + service
		body, res, err := t.send(http.MethodGet, address, "", nil, map[string]string{"Git-Protocol": version}) //nolint:bodyclose // body is closed
		if err != nil {
			return nil, err
		}
		if res.StatusCode >= 300 && res.StatusCode < 400 {
			_ = body.Close() // the response is not read
			base, err := t.followRedirect(res, "/info/refs?service="+service)
			if err != nil {
				return nil, err
			}
			t.base = base
			continue
		}
		if err := t.checkResponse(res); err != nil {
			_ = body.Close() // the response is not read
			return nil, err
		}
		if kind := res.Header.Get("Content-Type"); kind != "application/x-"+service+"-advertisement" {
			_ = body.Close() // the response is not read
			return nil, newFatal("%s/info/refs not valid: is this a git repository?", t.base)
		}
		return body, nil
	}
	return nil, newFatal("unable to access '%s/': Maximum (5) redirects followed", t.base)
}

// followRedirect returns the base of the URL to which a response redirects, which must end as that of the request does. What
// identifies the user is only for the host that it was given for, and never sent without TLS instead of with it.
func (t *httpTransport) followRedirect(res *http.Response, end string) (base string, err error) {
	asked, to := res.Request.URL, res.Header.Get("Location")
	next, err := asked.Parse(to)
	ok := err == nil && (next.Scheme == "http" || next.Scheme == "https")
	if ok {
		base, ok = strings.CutSuffix(next.String(), end)
	}
	if !ok {
		return "", newFatal("unable to update url base from redirection:\n  asked for: %s\n   redirect: %s", asked, to)
	}
	if next.Host != asked.Host || next.Scheme != asked.Scheme && next.Scheme != "https" {
		t.auth, t.header = "", nil
	}
	return base, nil
}

// packetReader reads git's packets: four digits with their length, and the content.
type packetReader struct {
	p  *kernel.Proc
	in *bufio.Reader
}

func newPacketReader(p *kernel.Proc, in io.Reader) *packetReader {
	p.Alloc(64 << 10)
	return &packetReader{p, bufio.NewReaderSize(in, 32<<10)}
}

// read returns the content of the next packet; special is its number if it has no content, else -1.
func (r *packetReader) read() (b []byte, special int, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return nil, 0, newFatal("the remote end hung up unexpectedly")
	}
	n, err := strconv.ParseUint(string(head[:]), 16, 32)
	if err != nil || n == 3 {
		return nil, 0, newFatal("protocol error: bad line length character: %q", head)
	}
	if n < 4 {
		return nil, int(n), nil
	}
	b = make([]byte, n-4)
	if _, err := io.ReadFull(r.in, b); err != nil {
		return nil, 0, newFatal("the remote end hung up unexpectedly")
	}
	r.p.Tick(1 + int(n)>>6)
	if bytes.HasPrefix(b, []byte("ERR ")) {
		return nil, 0, newFatal("remote error: %s", strings.TrimSpace(string(b[4:])))
	}
	return b, -1, nil
}

// readLine returns the next packet as a line; ok is false for a packet without content.
func (r *packetReader) readLine() (line string, ok bool, err error) {
	b, special, err := r.read()
	return strings.TrimSuffix(string(b), "\n"), special < 0, err
}

func appendPacket(b []byte, line string) []byte { return fmt.Appendf(b, "%04x%s", len(line)+4, line) }

func (t *httpTransport) listRefs(push bool) ([]remoteRef, error) {
	service, version := "git-upload-pack", "version=2"
	if push {
		service, version = "git-receive-pack", ""
	}
	body, err := t.discover(service, version)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	in := newPacketReader(t.p, body)
	line, _, err := in.readLine()
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(line, "# service=") {
		if _, _, err := in.read(); err != nil {
			return nil, err
		}
		if line, _, err = in.readLine(); err != nil {
			return nil, err
		}
	}
	if line == "version 2" {
		t.v2 = true
		for {
			line, ok, err := in.readLine()
			if err != nil {
				return nil, err
			}
			if !ok {
				return t.listRefsV2()
			}
			name, value, _ := strings.Cut(line, "=")
			t.setCapability(name, value)
		}
	}
	return t.readAdvertised(in, line)
}

// setCapability stores what a server can do. Its text is charged.
func (t *httpTransport) setCapability(name, value string) {
	t.p.Alloc(int64(len(name)+len(value)) + 200)
	t.caps[name] = value
}

// readAdvertised reads the refs that a server of version 0 lists.
func (t *httpTransport) readAdvertised(in *packetReader, line string) ([]remoteRef, error) {
	var list []remoteRef
	symbolic := make(map[string]string)
	for ok := true; ok; {
		text, caps, hasCaps := strings.Cut(line, "\x00")
		if hasCaps {
			for field := range strings.FieldsSeq(caps) {
				name, value, _ := strings.Cut(field, "=")
				if t.setCapability(name, value); name == "symref" {
					from, to, _ := strings.Cut(value, ":")
					symbolic[from] = to
				}
			}
		}
		i, name, found := strings.Cut(text, " ")
		base, peeled := strings.CutSuffix(name, "^{}")
		switch {
		case !found || !id(i).isValid() || name == "capabilities^{}":
		case peeled && len(list) > 0 && list[len(list)-1].name == base:
			list[len(list)-1].peeled = id(i)
		default:
			t.p.Alloc(int64(len(name)) + 160)
			t.known[id(i)] = true
			list = append(list, remoteRef{name: name, id: id(i), target: symbolic[name]})
		}
		var err error
		if line, ok, err = in.readLine(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// listRefsV2 asks a server of version 2 for its refs.
func (t *httpTransport) listRefsV2() ([]remoteRef, error) {
	b := appendPacket(nil, "command=ls-refs\n")
	b = append(appendPacket(b, "object-format=sha1\n"), "0001"...)
	for _, line := range []string{"peel\n", "symrefs\n"} {
		b = appendPacket(b, line)
	}
	body, err := t.post("git-upload-pack", append(b, "0000"...))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	in := newPacketReader(t.p, body)
	var list []remoteRef
	for {
		line, ok, err := in.readLine()
		if err != nil || !ok {
			return list, err
		}
		fields := strings.Fields(line)
		if len(fields) < 2 || !id(fields[0]).isValid() && fields[0] != "unborn" {
			return nil, newFatal("protocol error: bad line of refs: %q", line)
		}
		ref := remoteRef{name: fields[1]}
		if fields[0] != "unborn" {
			ref.id = id(fields[0])
		}
		for _, field := range fields[2:] {
			if value, ok := strings.CutPrefix(field, "symref-target:"); ok {
				ref.target = value
			} else if value, ok := strings.CutPrefix(field, "peeled:"); ok {
				ref.peeled = id(value)
			}
		}
		t.p.Alloc(int64(len(ref.name)) + 200)
		list = append(list, ref)
	}
}

// post sends a request to a service.
func (t *httpTransport) post(service string, b []byte) (*bodyReader, error) {
	header := map[string]string{}
	if t.v2 {
		header["Git-Protocol"] = "version=2"
	}
	body, res, err := t.send(http.MethodPost, t.base+"/"+service, service, b, header) //nolint:bodyclose // body is closed
	if err != nil {
		return nil, err
	}
	if err := t.checkResponse(res); err != nil {
		_ = body.Close() // the response is not read
		return nil, err
	}
	return body, nil
}

// listHaves returns commits that the other side may have too, the newest of each ref first.
func listHaves(r *repository) ([]id, error) {
	var starts, list []id
	for _, name := range r.listRefs("refs/") {
		if i := r.peelTag(r.readRef("refs/" + name)); r.hasObject(i) {
			starts = append(starts, i)
		}
	}
	err := r.walkHistory(starts, func(k *commit) (bool, error) {
		list = append(list, k.id)
		return len(list) < 256, nil
	})
	for _, i := range starts[:min(len(starts), 256)] {
		if !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	return list, err
}

func (t *httpTransport) fetch(r *repository, wants []id, depth int) error {
	haves, err := listHaves(r)
	if err != nil {
		return err
	}
	slices.Sort(wants)
	wants = slices.Compact(wants)
	var b []byte
	if t.v2 {
		b = appendPacket(b, "command=fetch")
		b = append(appendPacket(b, "object-format=sha1"), "0001"...)
		for _, line := range []string{"ofs-delta\n", "no-progress\n"} {
			b = appendPacket(b, line)
		}
	}
	for n, i := range wants {
		line := "want " + string(i)
		if n == 0 && !t.v2 {
			line += " side-band-64k ofs-delta no-progress"
			if _, ok := t.caps["shallow"]; ok && depth > 0 {
				line += " shallow"
			}
		}
		b = appendPacket(b, line+"\n")
	}
	for i := range r.readShallow() {
		b = appendPacket(b, "shallow "+string(i)+"\n")
	}
	if depth > 0 {
		b = appendPacket(b, fmt.Sprintf("deepen %d\n", depth))
	}
	if !t.v2 {
		b = append(b, "0000"...)
	}
	for _, i := range haves {
		b = appendPacket(b, "have "+string(i)+"\n")
	}
	b = appendPacket(b, "done\n")
	if t.v2 {
		b = append(b, "0000"...)
	}
	body, err := t.post("git-upload-pack", b)
	if err != nil {
		return err
	}
	defer body.Close()
	return t.readPackResponse(r, newPacketReader(t.p, body))
}

// readPackResponse reads the lines before the pack, and stores the pack.
func (t *httpTransport) readPackResponse(r *repository, in *packetReader) error {
	shallow := make(map[id]bool)
	maps.Copy(shallow, r.readShallow())
	changed := false
	for {
		line, _, err := in.readLine()
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(line, "shallow "):
			t.p.Alloc(int64(len(line)) + 100)
			shallow[id(line[8:])], changed = true, true
		case strings.HasPrefix(line, "unshallow "):
			delete(shallow, id(line[10:]))
			changed = true
		case t.v2 && line == "packfile", !t.v2 && (line == "NAK" || strings.HasPrefix(line, "ACK ")):
			if changed {
				if err := writeShallow(r, shallow); err != nil {
					return err
				}
			}
			return r.receivePack(&sideband{in: in})
		}
	}
}

func writeShallow(r *repository, list map[id]bool) error {
	r.shallowRead, r.commits = false, nil
	if len(list) == 0 {
		return r.removeGitFiles("shallow")
	}
	var b strings.Builder
	for i := range list {
		if !i.isValid() {
			return newFatal("protocol error: bad shallow line")
		}
		b.WriteString(string(i) + "\n")
	}
	return r.p.WriteFile(r.common+"/shallow", []byte(b.String()), 0o644)
}

// sideband returns the data of packets that begin with the number of a band: 1 data, 2 messages, 3 errors.
type sideband struct {
	in   *packetReader
	rest []byte
	end  bool
}

func (s *sideband) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.end {
			return 0, io.EOF
		}
		data, special, err := s.in.read()
		if err != nil {
			return 0, err
		}
		switch {
		case special >= 0:
			s.end = true
		case len(data) == 0:
		case data[0] == 1:
			s.rest = data[1:]
		case data[0] == 3:
			return 0, newFatal("remote error: %s", strings.TrimSpace(string(data[1:])))
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (t *httpTransport) push(r *repository, updates []refUpdate) error {
	var b []byte
	var wants, haves []id
	for n, u := range updates {
		line := fmt.Sprintf("%s %s %s", u.old, u.new, u.name)
		if n == 0 {
			line += "\x00 report-status object-format=sha1 agent=git/2.39.5-atoll"
		}
		b = appendPacket(b, line)
		if u.new != zeroID {
			wants = append(wants, u.new)
		}
		if r.hasObject(u.old) {
			haves = append(haves, u.old)
		}
	}
	b = append(b, "0000"...)
	for _, name := range r.listRefs("refs/remotes/") {
		if i := r.readRef("refs/remotes/" + name); len(haves) < 256 && r.hasObject(i) && t.known[i] {
			haves = append(haves, i)
		}
	}
	if len(wants) > 0 {
		list, err := r.listMissing(wants, haves)
		if err != nil {
			return err
		}
		pack, err := r.buildPack(list)
		if err != nil {
			return err
		}
		t.p.Alloc(int64(len(pack)))
		b = append(b, pack...)
	}
	body, err := t.post("git-receive-pack", b)
	if err != nil {
		return err
	}
	defer body.Close()
	return readReport(newPacketReader(t.p, body), updates)
}

// readReport reads what a server did with each update.
func readReport(in *packetReader, updates []refUpdate) error {
	reported := make(map[string]bool)
	for {
		line, ok, err := in.readLine()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		verb, rest, _ := strings.Cut(line, " ")
		name, why, _ := strings.Cut(rest, " ")
		if verb == "unpack" && rest != "ok" {
			return newError("remote unpack failed: %s", rest)
		}
		if verb != "ok" && verb != "ng" {
			continue
		}
		for n := range updates {
			if updates[n].name == name {
				reported[name] = true
				if verb == "ng" {
					updates[n].problem = orDefault(why, "failed")
				}
			}
		}
	}
	for n := range updates {
		if !reported[updates[n].name] {
			updates[n].problem = "remote failed to report status"
		}
	}
	return nil
}

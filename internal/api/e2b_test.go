package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/api/e2b"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/preview/proxy"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// e2bSite is a server with E2B's API and a sandbox that was created with it.
type e2bSite struct {
	*site
	key     string // API key of the sandbox's owner
	sandbox string
	access  string // access key of the sandbox
	traffic string
}

func newE2BSite(t testing.TB) *e2bSite {
	home := t.TempDir()
	return newE2BSiteWith(t, home, &virtual.Driver{Dir: filepath.Join(home, "sandboxes")})
}

// newE2BSiteWith is newE2BSite with a home and a driver.
func newE2BSiteWith(t testing.TB, home string, d atoll.Driver) *e2bSite {
	s := &e2bSite{site: newSiteWith(t, home, d, Options{E2B: &e2b.Options{}, Limits: Limits{Rate: -1, WrongTokens: -1}})}
	t.Cleanup(s.server.e2b.Close)
	s.key = s.e2bKey(atoll.Owner{App: "app", User: "alice"})
	var out struct{ SandboxID, EnvdAccessToken, TrafficAccessToken string }
	s.control("POST", "/v2/sandboxes", `{"templateID":"base","timeout":120,"metadata":{"user":"a b"},"envVars":{"FOO":"bar"},"later":{"unknown":true}}`, 201, &out)
	s.sandbox, s.access, s.traffic = out.SandboxID, out.EnvdAccessToken, out.TrafficAccessToken
	return s
}

// e2bKey returns a new API key of an owner.
func (s *e2bSite) e2bKey(o atoll.Owner) string {
	s.t.Helper()
	key, err := fleet.E2BKey(s.newToken(o, atoll.ScopeRead, atoll.ScopeRun))
	if err != nil {
		s.t.Fatal(err)
	}
	return key
}

// call sends a request and returns the answer.
func (s *e2bSite) call(method, path string, header map[string]string, body string) (int, http.Header, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

// control calls the control API and decodes the answer into out, if it is not nil.
func (s *e2bSite) control(method, path, body string, want int, out any) string {
	s.t.Helper()
	status, _, text := s.call(method, path, map[string]string{"X-Api-Key": s.key, "Content-Type": "application/json"}, body)
	if status != want {
		s.t.Fatalf("%s %s: %d %s, want %d", method, path, status, text, want)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(text), out); err != nil {
			s.t.Fatalf("%s %s: %v: %s", method, path, err, text)
		}
	}
	return text
}

// rpc makes a unary call.
func (s *e2bSite) rpc(method, body string, want int) string {
	s.t.Helper()
	status, _, text := s.call("POST", "/"+method, s.dataHeader("application/json"), body)
	if status != want {
		s.t.Errorf("%s %s: %d %s, want %d", method, body, status, text, want)
	}
	return text
}

func (s *e2bSite) dataHeader(kind string) map[string]string {
	return map[string]string{"X-Access-Token": s.access, "E2b-Sandbox-Id": s.sandbox, "E2b-Sandbox-Port": "49983", "Content-Type": kind}
}

// frame returns a message of a stream.
func frame(text string) string {
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text)))
	return string(b) + text
}

// stream makes a call whose answer is a stream and returns its messages.
func (s *e2bSite) stream(method, body string) []string {
	s.t.Helper()
	status, _, text := s.call("POST", "/"+method, s.dataHeader("application/connect+json"), frame(body))
	if status != 200 {
		s.t.Fatalf("%s: %d %s", method, status, text)
	}
	return splitFrames(s.t, text)
}

func splitFrames(t testing.TB, text string) (list []string) {
	t.Helper()
	for b := []byte(text); len(b) > 0; {
		if len(b) < 5 {
			t.Fatalf("a cut message: %q", b)
		}
		n := int(binary.BigEndian.Uint32(b[1:])) + 5
		if len(b) < n {
			t.Fatalf("a cut message: %q", b)
		}
		list = append(list, string(b[5:n]))
		b = b[n:]
	}
	return list
}

// output returns the decoded output of a stream of a process.
func output(t testing.TB, messages []string, stream string) string {
	t.Helper()
	var out []byte
	for _, m := range messages {
		var e struct {
			Event struct{ Data map[string][]byte }
		}
		if err := json.Unmarshal([]byte(m), &e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Event.Data[stream]...)
	}
	return string(out)
}

// TestE2BRequests sends requests as the SDKs of E2B do, and compares the answers with those that they read.
func TestE2BRequests(t *testing.T) {
	s := newE2BSite(t)
	at := "/sandboxes/" + s.sandbox
	for _, k := range []struct {
		method, path, body string
		status             int
		want               string // regular expression
	}{
		{"GET", at, "", 200, `"metadata":\{"user":"a b"\},"state":"running","envdVersion":"0\.\d+\.\d+"`},
		{"GET", "/v2/sandboxes?metadata=user%3Da%252520b&state=running,paused", "", 200, `^\[\{.*` + s.sandbox},
		{"GET", "/v2/sandboxes?metadata=user%3Dother", "", 200, `^\[\]`},
		{"GET", "/v2/sandboxes?state=unheard", "", 400, `"code":400`},
		{"GET", "/sandboxes", "", 200, s.sandbox},
		{"POST", at + "/timeout", `{"timeout":60}`, 204, `^$`},
		{"POST", at + "/timeout", `{"timeout":-1}`, 400, `timeout`},
		{"POST", at + "/refreshes", `{"duration":600}`, 204, `^$`},
		{"GET", at + "/metrics", "", 200, `^\[\{"timestamp":`},
		{"GET", "/v2" + at + "/logs", "", 200, `"logs":`},
		{"POST", at + "/connect", `{"timeout":300}`, 200, `"envdAccessToken":"ea_`},
		{"POST", "/v2" + at + "/connect", `{}`, 200, `"sandboxID":"` + s.sandbox},
		{"POST", at + "/resume", `{}`, 409, `"code":409`},
		{"POST", at + "/pause", `{}`, 204, `^$`},
		{"POST", at + "/pause", `{}`, 409, `"code":409`},
		{"GET", "/v2/sandboxes?state=paused", "", 200, s.sandbox},
		{"POST", "/v2" + at + "/connect", `{}`, 201, `"sandboxID":"` + s.sandbox},
		{"POST", "/v2/sandboxes", `{"templateID":"nothing-such"}`, 404, `template 'nothing-such' not found`},
		{"POST", "/v2/sandboxes", `{"templateID":""}`, 400, `templateID`},
		{"POST", "/v2/sandboxes", `{"templateID":"base","mcp":{}}`, 501, `mcp`},
		{"POST", "/v2/sandboxes", `{"templateID":"base","iam":{"tokens":{}}}`, 501, `iam`},
		{"POST", "/v2/sandboxes", `{"templateID":"base","network":{"egressProxy":{"address":"x:1"}}}`, 501, `egressProxy`},
		{"POST", "/v2/sandboxes", `{"templateID":"base","network":{"maskRequestHost":"x"}}`, 501, `maskRequestHost`},
		{"POST", "/v2/sandboxes", `{"templateID":"base","metadata":{"e2b.template":"x"}}`, 400, `reserved`},
		{"POST", "/v2/sandboxes", `{"templateID":7}`, 400, `templateID`},
		{"POST", "/v2/sandboxes", `{`, 400, `not JSON`},
		{"POST", "/secrets", `{"name":"a","value":"b"}`, 501, `secrets`},
		{"GET", "/templates", "", 200, `^\[\]`},
		{"GET", "/templates/aliases/base", "", 200, `"templateID":"base"`},
		{"GET", "/templates/aliases/none", "", 404, `"code":404`},
		{"GET", "/v4/sandboxes", "", 404, `GET /v4/sandboxes`},
		{"GET", "/sandboxes/nope", "", 404, `"code":404`},
		{"DELETE", "/sandboxes/s0123456789ab", "", 404, `"code":404`},
	} {
		status, h, body := s.call(k.method, k.path, map[string]string{"X-Api-Key": s.key, "Content-Type": "application/json"}, k.body)
		if status != k.status || !regexp.MustCompile(k.want).MatchString(body) {
			t.Errorf("%s %s %s: %d %s, want %d %s", k.method, k.path, k.body, status, body, k.status, k.want)
		}
		if status >= 400 && h.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %s", k.method, k.path, h.Get("Content-Type"))
		}
	}
}

// TestE2BPages: a cursor leads through all sandboxes, each once.
func TestE2BPages(t *testing.T) {
	s := newE2BSite(t)
	for range 4 {
		s.control("POST", "/sandboxes", `{"templateID":"base","timeout":15,"secure":true,"autoPause":false,"allow_internet_access":true}`, 201, nil)
	}
	seen, token := make(map[string]bool), ""
	for page := 0; page == 0 || token != ""; page++ {
		_, h, body := s.call("GET", "/v2/sandboxes?limit=2&nextToken="+token, map[string]string{"X-Api-Key": s.key}, "")
		var list []struct{ SandboxID string }
		if err := json.Unmarshal([]byte(body), &list); err != nil || len(list) > 2 {
			t.Fatalf("%v: %s", err, body)
		}
		for _, i := range list {
			if seen[i.SandboxID] {
				t.Errorf("%s is on two pages", i.SandboxID)
			}
			seen[i.SandboxID] = true
		}
		token = h.Get("X-Next-Token")
	}
	if len(seen) != 5 {
		t.Errorf("%d sandboxes, want 5", len(seen))
	}
	if status, _, body := s.call("GET", "/v2/sandboxes?nextToken=sxxxxxxxxxxxx", map[string]string{"X-Api-Key": s.key}, ""); status != 400 {
		t.Errorf("a cursor of nothing: %d %s", status, body)
	}
}

// TestE2BCommands runs commands by the Connect protocol.
func TestE2BCommands(t *testing.T) {
	s := newE2BSite(t)
	start := func(command, more string) string {
		b, _ := json.Marshal(command)
		return fmt.Sprintf(`{"process":{"cmd":"/bin/bash","args":["-l","-c",%s]%s},"stdin":false}`, b, more)
	}
	m := s.stream("process.Process/Start", start(`echo out; echo err >&2; echo $FOO $X; pwd; exit 3`, `,"envs":{"X":"y"},"cwd":"/tmp"`))
	if !strings.HasPrefix(m[0], `{"event":{"start":{"pid":`) || m[len(m)-1] != "{}" {
		t.Errorf("%q", m)
	}
	if o, e := output(t, m, "stdout"), output(t, m, "stderr"); o != "out\nbar y\n/tmp\n" || e != "err\n" {
		t.Errorf("output %q, %q", o, e)
	}
	if end := m[len(m)-2]; !strings.Contains(end, `"exitCode":3`) || !strings.Contains(end, `"exited":true`) {
		t.Errorf("end %s", end)
	}
	var pid struct {
		Event struct{ Start struct{ PID int } }
	}
	if err := json.Unmarshal([]byte(m[0]), &pid); err != nil {
		t.Fatal(err)
	}
	again := s.stream("process.Process/Connect", fmt.Sprintf(`{"process":{"pid":%d}}`, pid.Event.Start.PID))
	if output(t, again, "stdout") != output(t, m, "stdout") || again[len(again)-2] != m[len(m)-2] {
		t.Errorf("after its end: %q, was %q", again, m)
	}
	big := s.stream("process.Process/Start", start(`i=0; while [ $i -lt 20000 ]; do echo 0123456789012345678901234567890123456789012345678901234567890123456789; i=$((i+1)); done`, ""))
	if n := len(output(t, big, "stdout")); n != 20000*71 {
		t.Errorf("%d bytes of output", n)
	}
	for _, k := range []struct{ method, body, want string }{
		{"process.Process/Start", `{"process":{}}`, `invalid_argument`},
		{"process.Process/Start", `{`, `invalid_argument`},
		{"process.Process/Connect", `{"process":{"pid":1}}`, `not_found`},
		{"process.Process/StreamInput", `{"data":{}}`, `invalid_argument`},
		{"filesystem.Filesystem/WatchDir", `{"path":"/nope"}`, `not_found`},
	} {
		if m := s.stream(k.method, k.body); !strings.Contains(m[len(m)-1], `"code":"`+k.want) {
			t.Errorf("%s %s: %q, want %s", k.method, k.body, m, k.want)
		}
	}
	if got := s.rpc("process.Process/List", `{}`, 200); strings.TrimSpace(got) != `{"processes":[]}` {
		t.Errorf("processes: %s", got)
	}
	for _, method := range []string{"SendSignal", "SendInput", "CloseStdin", "Update"} {
		if got := s.rpc("process.Process/"+method, `{"process":{"pid":1},"signal":"SIGNAL_SIGKILL"}`, 404); !strings.Contains(got, `"code":"not_found"`) {
			t.Errorf("%s of no process: %s", method, got)
		}
	}
	s.rpc("process.Process/SendSignal", `{"process":{"pid":1},"signal":"SIGNAL_UNHEARD"}`, 400)
}

// TestE2BInput starts a command that reads, by tag, while its client is connected.
func TestE2BInput(t *testing.T) {
	s := newE2BSite(t)
	started, body := make(chan struct{}), make(chan string, 1)
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/process.Process/Start", strings.NewReader(frame(`{"process":{"cmd":"/bin/bash","args":["-c","cat; echo end"]},"tag":"reader","stdin":true}`)))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range s.dataHeader("application/connect+json") {
		r.Header.Set(k, v)
	}
	go func() {
		res, err := s.client.Do(r)
		if err != nil {
			t.Error(err)
			close(started)
			return
		}
		defer res.Body.Close()
		head := make([]byte, 5)
		if _, err := io.ReadFull(res.Body, head); err != nil {
			t.Error(err)
		}
		close(started)
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		body <- string(head) + string(b)
	}()
	<-started
	if got := s.rpc("process.Process/List", `{}`, 200); !strings.Contains(got, `"cmd":"/bin/bash","args":["-c","cat; echo end"]`) || !strings.Contains(got, `"tag":"reader"`) {
		t.Errorf("processes: %s", got)
	}
	s.rpc("process.Process/SendInput", `{"process":{"tag":"reader"},"input":{"stdin":"aGVsbG8K"}}`, 200)
	var messages string
	for _, m := range []string{`{"start":{"process":{"tag":"reader"}}}`, `{"keepalive":{}}`, `{"data":{"input":{"stdin":"bW9yZQo="}}}`} {
		messages += frame(m)
	}
	if status, _, text := s.call("POST", "/process.Process/StreamInput", s.dataHeader("application/connect+json"), messages); status != 200 || strings.Contains(text, "error") {
		t.Errorf("stream input: %d %q", status, text)
	}
	s.rpc("process.Process/CloseStdin", `{"process":{"tag":"reader"}}`, 200)
	if out := output(t, splitFrames(t, <-body), "stdout"); out != "hello\nmore\nend\n" {
		t.Errorf("%q", out)
	}
}

// TestE2BFiles uses files by the Connect protocol and by up- and downloads.
func TestE2BFiles(t *testing.T) {
	s := newE2BSite(t)
	form := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/home/user/dir/a.txt\"\r\nContent-Type: application/octet-stream\r\n\r\nhi there\r\n--b--\r\n"
	status, _, text := s.call("POST", "/files", s.dataHeader("multipart/form-data; boundary=b"), form)
	if want := `[{"name":"a.txt","path":"/home/user/dir/a.txt","type":"file"}]`; status != 200 || strings.TrimSpace(text) != want {
		t.Errorf("upload: %d %s", status, text)
	}
	if status, _, text := s.call("POST", "/files?path=octet", s.dataHeader("application/octet-stream"), "octets"); status != 200 {
		t.Errorf("upload: %d %s", status, text)
	}
	plain := s.dataHeader("")
	plain["Accept-Encoding"] = "identity"
	if status, h, text := s.call("GET", "/files?path=/home/user/octet", plain, ""); status != 200 || text != "octets" || h.Get("Content-Length") != "6" {
		t.Errorf("download: %d %v %q", status, h, text)
	}
	if got := s.rpc("filesystem.Filesystem/Stat", `{"path":"dir/a.txt"}`, 200); !strings.Contains(got, `"type":"FILE_TYPE_FILE","path":"/home/user/dir/a.txt","size":"8"`) {
		t.Errorf("stat: %s", got)
	}
	s.rpc("filesystem.Filesystem/MakeDir", `{"path":"/home/user/dir/sub"}`, 200)
	if got := s.rpc("filesystem.Filesystem/MakeDir", `{"path":"/home/user/dir/sub"}`, 409); !strings.Contains(got, `"already_exists"`) {
		t.Errorf("a directory that exists: %s", got)
	}
	s.rpc("filesystem.Filesystem/Move", `{"source":"/home/user/dir/a.txt","destination":"/home/user/new/b.txt"}`, 200)
	if got := s.rpc("filesystem.Filesystem/ListDir", `{"path":"/home/user","depth":2}`, 200); !strings.Contains(got, `"/home/user/new/b.txt"`) || !strings.Contains(got, `"/home/user/dir/sub"`) {
		t.Errorf("list: %s", got)
	}
	s.rpc("filesystem.Filesystem/Remove", `{"path":"/home/user/new"}`, 200)
	for _, k := range []struct {
		method, body string
		status       int
	}{{"Stat", `{"path":"/nope"}`, 404}, {"ListDir", `{"path":"/nope"}`, 404}, {"Move", `{"source":"/nope","destination":"/x"}`, 404}, {"ListDir", `{"path":"/home/user/octet"}`, 400}, {"ListDir", `{"path":"/","depth":-1}`, 400}, {"ListDir", `{"path":"/","depth":1000}`, 400}} {
		s.rpc("filesystem.Filesystem/"+k.method, k.body, k.status)
	}
	var w struct{ WatcherID string }
	if err := json.Unmarshal([]byte(s.rpc("filesystem.Filesystem/CreateWatcher", `{"path":"/home/user","recursive":true}`, 200)), &w); err != nil {
		t.Fatal(err)
	}
	s.call("POST", "/files?path=/home/user/dir/w", s.dataHeader("application/octet-stream"), "x")
	testenv.WaitFor(t, "an event of the watcher", func() bool {
		return strings.Contains(s.rpc("filesystem.Filesystem/GetWatcherEvents", `{"watcherId":"`+w.WatcherID+`"}`, 200), `"name":"dir/w"`)
	})
	s.rpc("filesystem.Filesystem/RemoveWatcher", `{"watcherId":"`+w.WatcherID+`"}`, 200)
	s.rpc("filesystem.Filesystem/GetWatcherEvents", `{"watcherId":"`+w.WatcherID+`"}`, 404)
	if status, _, text := s.call("GET", "/files?path=/nope", s.dataHeader(""), ""); status != 404 || !strings.Contains(text, `"code":404`) {
		t.Errorf("a missing file: %d %s", status, text)
	}
}

// TestE2BSignatures: a signed URL opens one file for one operation until its end, and nothing else.
func TestE2BSignatures(t *testing.T) {
	s := newE2BSite(t)
	sign := func(path, op, user, exp string) string {
		text := path + ":" + op + ":" + user + ":" + s.access
		if exp != "" {
			text += ":" + exp
		}
		sum := sha256.Sum256([]byte(text))
		return "v1_" + strings.TrimRight(base64.StdEncoding.EncodeToString(sum[:]), "=")
	}
	link := func(path, user, exp, signature string) string {
		q := url.Values{"path": {path}, "signature": {signature}}
		if user != "" {
			q.Set("username", user)
		}
		if exp != "" {
			q.Set("signature_expiration", exp)
		}
		return "/files?" + q.Encode()
	}
	later, earlier := strconv.FormatInt(time.Now().Unix()+60, 10), strconv.FormatInt(time.Now().Unix()-1, 10)
	octets := map[string]string{"Content-Type": "application/octet-stream"}
	if status, _, text := s.call("POST", link("/tmp/f", "", later, sign("/tmp/f", "write", "", later)), octets, "signed"); status != 200 {
		t.Fatalf("a signed upload: %d %s", status, text)
	}
	if status, _, text := s.call("GET", link("/tmp/f", "", "", sign("/tmp/f", "read", "", "")), nil, ""); status != 200 || text != "signed" {
		t.Errorf("a signed download: %d %s", status, text)
	}
	good := sign("/tmp/f", "read", "", later)
	for what, k := range map[string][2]string{
		"another path":       {"GET", link("/tmp/g", "", later, good)},
		"another operation":  {"POST", link("/tmp/f", "", later, good)},
		"another user":       {"GET", link("/tmp/f", "root", later, good)},
		"a later end":        {"GET", link("/tmp/f", "", later+"0", good)},
		"no end":             {"GET", link("/tmp/f", "", "", good)},
		"an end that passed": {"GET", link("/tmp/f", "", earlier, sign("/tmp/f", "read", "", earlier))},
		"another form":       {"GET", link("/tmp/f", "", "0"+later, sign("/tmp/f", "read", "", "0"+later))},
		"no signature":       {"GET", "/files?path=/tmp/f"},
		"another route":      {"POST", "/process.Process/List?path=/tmp/f&signature=" + url.QueryEscape(good)},
	} {
		if status, _, text := s.call(k[0], k[1], octets, ""); status != 502 || strings.Contains(text, "signed") {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	s.control("DELETE", "/sandboxes/"+s.sandbox, "", 204, nil)
	if status, _, _ := s.call("GET", link("/tmp/f", "", later, good), nil, ""); status != 502 {
		t.Errorf("after its sandbox: %d", status)
	}
}

// TestE2BOwners: on every route, the key of another owner, and the access key of another sandbox, give the
// same answer as for a sandbox that does not exist.
func TestE2BOwners(t *testing.T) {
	s := newE2BSite(t)
	s.control("POST", "/volumes", `{"name":"treasure"}`, 201, nil)
	other := s.e2bKey(atoll.Owner{App: "app", User: "mallory"})
	nothing := "s0123456789ab"
	same := func(text, id string) string { return strings.ReplaceAll(text, id, "ID") }
	tried := 0
	for _, pattern := range s.server.e2b.Routes(e2b.Control) {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.Contains(path, "{") || strings.HasPrefix(path, "/secrets") {
			continue // it names no object, or there are none
		}
		hers, theirs := s.sandbox, nothing
		if strings.HasPrefix(path, "/volume") {
			hers, theirs = "treasure", "nothing0"
		}
		for _, k := range []string{`{}`, ``} {
			fill := func(id string) string {
				return strings.NewReplacer("{id}", id, "{build}", id, "{hash}", "h", "{what}", "tags").Replace(path)
			}
			h := map[string]string{"X-Api-Key": other, "Content-Type": "application/json"}
			status1, _, text1 := s.call(method, fill(hers), h, k)
			status2, _, text2 := s.call(method, fill(theirs), h, k)
			if status1 != status2 || same(text1, hers) != same(text2, theirs) || status1 < 400 {
				t.Errorf("%s: %d %s for another's, %d %s for nothing", pattern, status1, text1, status2, text2)
			}
			for _, wrong := range []string{"", "e2b_00", "e2b_" + strings.Repeat("0", 40), "atoll_x", s.access} {
				h := map[string]string{"X-Api-Key": wrong}
				if status, _, text := s.call(method, fill(hers), h, k); status != 401 || !strings.Contains(text, `"code":401`) {
					t.Errorf("%s with the key %q: %d %s", pattern, wrong, status, text)
				}
			}
			tried++
		}
	}
	var second struct{ SandboxID, EnvdAccessToken, TrafficAccessToken string }
	s.key = other
	s.control("POST", "/v2/sandboxes", `{"templateID":"base"}`, 201, &second)
	for _, pattern := range s.server.e2b.Routes(e2b.Data) {
		method, path, _ := strings.Cut(pattern, " ")
		path = strings.ReplaceAll(path, "{id}", "default-python")
		want := ""
		for i, h := range []map[string]string{
			{"E2b-Sandbox-Id": nothing, "X-Access-Token": second.EnvdAccessToken},
			{"E2b-Sandbox-Id": s.sandbox, "X-Access-Token": second.EnvdAccessToken},
			{"E2b-Sandbox-Id": s.sandbox},
			{"E2b-Sandbox-Id": s.sandbox, "X-Api-Key": other},
			{"E2b-Sandbox-Id": s.sandbox, "X-Access-Token": "ea_" + strings.Repeat("0", 40)},
			{"E2b-Sandbox-Id": s.sandbox, "E2b-Traffic-Access-Token": second.TrafficAccessToken},
			{"E2b-Sandbox-Id": s.sandbox, "Authorization": "Bearer " + s.key},
		} {
			h["Content-Type"] = "application/json"
			status, _, text := s.call(method, path, h, `{}`)
			text = same(text, h["E2b-Sandbox-Id"])
			if i == 0 {
				want = text
			}
			if status != 502 || text != want || !strings.Contains(text, `"sandboxId":"ID"`) {
				t.Errorf("%s with %v: %d %s, want %s", pattern, h, status, text, want)
			}
		}
		tried++
	}
	if tried < 50 {
		t.Errorf("only %d routes", tried)
	}
}

// TestE2BHostNames: a sandbox is also named by the host, PORT-ID.DOMAIN, whatever the headers say.
func TestE2BHostNames(t *testing.T) {
	s := newE2BSite(t)
	p := &proxy.Proxy{Services: s.server.E2BServices()}
	t.Cleanup(func() { _ = p.Close() })
	ask := func(host string, h map[string]string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "http://"+host+"/process.Process/List", strings.NewReader("{}"))
		for k, v := range h {
			r.Header.Set(k, v)
		}
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, k := range []struct {
		host   string
		header map[string]string
		want   int
	}{
		{"49983-" + s.sandbox + ".localhost", map[string]string{"X-Access-Token": s.access}, 200},
		{"49983-s0123456789ab.localhost", map[string]string{"X-Access-Token": s.access, "E2b-Sandbox-Id": s.sandbox}, 502},
		{"49983-" + s.sandbox + ".localhost", map[string]string{"E2b-Sandbox-Id": s.sandbox}, 502},
		{"49983-" + s.sandbox + ".example.com", map[string]string{"X-Access-Token": s.access}, 421},
	} {
		if status, text := ask(k.host, k.header); status != k.want {
			t.Errorf("%s: %d %s, want %d", k.host, status, text, k.want)
		}
	}
}

// TestE2BOverHTTP2 makes calls of both kinds over HTTP/2.
func TestE2BOverHTTP2(t *testing.T) {
	s := newE2BSite(t)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s.client = &http.Client{Transport: &http.Transport{Protocols: protocols}}
	t.Cleanup(s.client.CloseIdleConnections)
	m := s.stream("process.Process/Start", `{"process":{"cmd":"/bin/bash","args":["-c","echo over two"]},"stdin":false}`)
	if out := output(t, m, "stdout"); out != "over two\n" {
		t.Errorf("%q", out)
	}
	s.rpc("filesystem.Filesystem/ListDir", `{"path":"/"}`, 200)
	if got := s.rpc("filesystem.Filesystem/Stat", `{"path":"/nope"}`, 404); !strings.Contains(got, "not_found") {
		t.Error(got)
	}
}

// TestE2BTraffic: a traffic token gives access to the contexts of the code interpreter alone.
func TestE2BTraffic(t *testing.T) {
	s := newE2BSite(t)
	h := map[string]string{"E2b-Sandbox-Id": s.sandbox, "E2b-Traffic-Access-Token": s.traffic, "Content-Type": "application/json"}
	if status, _, text := s.call("GET", "/contexts", h, ""); status != 200 {
		t.Errorf("contexts: %d %s", status, text)
	}
	for _, k := range [][2]string{{"POST", "/execute"}, {"POST", "/process.Process/List"}, {"GET", "/files?path=/etc/passwd"}, {"GET", "/health"}, {"POST", "/filesystem.Filesystem/ListDir"}} {
		if status, _, text := s.call(k[0], k[1], h, "{}"); status != 502 {
			t.Errorf("%v: %d %s", k, status, text)
		}
	}
}

// TestE2BDeadSandbox: a sandbox that was killed, and one whose time has come, answer 502 with its id.
func TestE2BDeadSandbox(t *testing.T) {
	s := newE2BSite(t)
	s.control("DELETE", "/sandboxes/"+s.sandbox, "", 204, nil)
	for _, k := range [][2]string{{"GET", "/health"}, {"GET", "/files?path=/x"}, {"POST", "/process.Process/Start"}, {"POST", "/filesystem.Filesystem/Stat"}, {"POST", "/execute"}} {
		status, _, text := s.call(k[0], k[1], s.dataHeader("application/json"), "{}")
		if want := `{"code":502,"message":"The sandbox was not found","sandboxId":"` + s.sandbox + `"}`; status != 502 || strings.TrimSpace(text) != want {
			t.Errorf("%v: %d %s", k, status, text)
		}
	}
	s.control("DELETE", "/sandboxes/"+s.sandbox, "", 404, nil)
}

// pausingDriver is a driver whose sandboxes pause when goOn is closed.
type pausingDriver struct {
	*virtual.Driver

	pausing, goOn chan struct{}
}

func (d pausingDriver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	sb, err := d.Driver.Create(ctx, spec)
	return pausingSandbox{sb, d}, err
}

type pausingSandbox struct {
	atoll.Sandbox

	d pausingDriver
}

func (s pausingSandbox) Unwrap() atoll.Sandbox { return s.Sandbox }

func (s pausingSandbox) Pause(ctx context.Context) error {
	close(s.d.pausing)
	<-s.d.goOn
	return atoll.Pause(ctx, s.Sandbox)
}

func (s pausingSandbox) Resume(ctx context.Context) error { return atoll.Resume(ctx, s.Sandbox) }

// TestE2BConnectDuringPause: whoever connects to a sandbox that is about to be paused, or calls one that resumes by
// itself, waits for the pause and finds it running.
func TestE2BConnectDuringPause(t *testing.T) {
	for _, k := range []struct{ name, create string }{{"connect", ""}, {"autoResume", `,"autoResume":{"enabled":true}`}} {
		t.Run(k.name, func(t *testing.T) {
			home := t.TempDir()
			d := pausingDriver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}, make(chan struct{}), make(chan struct{})}
			s := newE2BSiteWith(t, home, d)
			var sb struct{ SandboxID, EnvdAccessToken string }
			s.control("POST", "/v2/sandboxes", `{"templateID":"base","timeout":120`+k.create+`}`, 201, &sb)
			s.sandbox, s.access = sb.SandboxID, sb.EnvdAccessToken
			paused := make(chan int, 1)
			go func() {
				status, _, _ := s.call("POST", "/sandboxes/"+sb.SandboxID+"/pause", map[string]string{"X-Api-Key": s.key}, "")
				paused <- status
			}()
			<-d.pausing
			ask := func() int {
				status, _, _ := s.call("GET", "/health", s.dataHeader(""), "")
				return status
			}
			if k.create == "" {
				if got := ask(); got != http.StatusBadGateway {
					t.Errorf("while it is paused, a call is answered with %d", got)
				}
				ask = func() int {
					status, _, _ := s.call("POST", "/sandboxes/"+sb.SandboxID+"/connect", map[string]string{"X-Api-Key": s.key, "Content-Type": "application/json"}, `{"timeout":60}`)
					return status
				}
			}
			answer := make(chan int, 1)
			go func() { answer <- ask() }()
			select {
			case got := <-answer:
				t.Errorf("an answer before the end of the pause: %d", got)
				answer <- got
			case <-time.After(50 * time.Millisecond):
			}
			close(d.goOn)
			if got := <-paused; got != http.StatusNoContent {
				t.Errorf("the pause: %d", got)
			}
			if got := <-answer; got/100 != 2 {
				t.Errorf("the answer: %d", got)
			}
			if status, _, text := s.call("GET", "/health", s.dataHeader(""), ""); status/100 != 2 {
				t.Errorf("afterwards: %d %s", status, text)
			}
		})
	}
}

// runFleet does the background work of the fleet until the test ends.
func (s *e2bSite) runFleet() {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- s.fleet.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			s.t.Error(err)
		}
	})
}

// TestE2BTimeoutAfterCreation: the timeout of a sandbox begins when its template says that it is ready, however long that
// took.
func TestE2BTimeoutAfterCreation(t *testing.T) {
	home := t.TempDir()
	s := newE2BSiteWith(t, home, &virtual.Driver{Dir: filepath.Join(home, "sandboxes")})
	s.runFleet()
	var build struct{ TemplateID, BuildID, Status string }
	s.control("POST", "/v3/templates", `{"name":"slow"}`, 202, &build)
	at := "/templates/" + build.TemplateID + "/builds/" + build.BuildID
	s.control("POST", "/v2"+at, `{"fromTemplate":"base","steps":[],"startCmd":"true","readyCmd":"sleep 1.2"}`, 202, nil)
	testenv.WaitFor(t, "the template", func() bool {
		s.control("GET", at+"/status", "", 200, &build)
		return build.Status == "ready"
	})
	begun := time.Now()
	var sb struct {
		SandboxID string
		EndAt     time.Time
	}
	s.control("POST", "/v2/sandboxes", `{"templateID":"slow","timeout":1,"autoPause":true}`, 201, &sb)
	s.control("GET", "/sandboxes/"+sb.SandboxID, "", 200, &sb)
	if sb.EndAt.Before(begun.Add(2200*time.Millisecond)) || sb.EndAt.After(time.Now().Add(time.Second)) {
		t.Errorf("asked for at %v, it ends at %v", begun, sb.EndAt)
	}
}

// TestE2BResumesAfterTimeout: a sandbox that was paused at its end has a whole timeout again when a call resumes it.
func TestE2BResumesAfterTimeout(t *testing.T) {
	home := t.TempDir()
	s := newE2BSiteWith(t, home, &virtual.Driver{Dir: filepath.Join(home, "sandboxes")})
	s.runFleet()
	var sb, now struct {
		SandboxID, EnvdAccessToken, State string
		EndAt                             time.Time
	}
	s.control("POST", "/v2/sandboxes", `{"templateID":"base","timeout":1,"autoPause":true,"autoResume":{"enabled":true}}`, 201, &sb)
	s.sandbox, s.access = sb.SandboxID, sb.EnvdAccessToken
	testenv.WaitFor(t, "the pause", func() bool {
		s.control("GET", "/sandboxes/"+sb.SandboxID, "", 200, &sb)
		return sb.State == "paused"
	})
	if status, _, text := s.call("GET", "/health", s.dataHeader(""), ""); status/100 != 2 {
		t.Fatalf("%d %s", status, text)
	}
	s.control("GET", "/sandboxes/"+sb.SandboxID, "", 200, &now)
	if !now.EndAt.After(sb.EndAt.Add(500 * time.Millisecond)) {
		t.Errorf("it is %s, ends at %v, and ended at %v before", now.State, now.EndAt, sb.EndAt)
	}
}

// TestE2BUnknownRoute: the answer names the route, and a metric counts it.
func TestE2BUnknownRoute(t *testing.T) {
	s := newE2BSite(t)
	if text := s.control("POST", "/v9/things", "{}", 404, nil); !strings.Contains(text, "POST /v9/things") {
		t.Error(text)
	}
	status, _, text := s.call("POST", "/process.Process/Fly", s.dataHeader("application/json"), "{}")
	if status != 404 || !strings.Contains(text, "/process.Process/Fly") {
		t.Errorf("%d %s", status, text)
	}
	_, _, metrics := s.call("GET", "/metrics", map[string]string{"Authorization": "Bearer " + s.token}, "")
	if !strings.Contains(metrics, `atoll_unknown_vendor_routes_total{api="e2b"} 2`) {
		t.Error("the metric does not count them")
	}
	if status, _, _ := s.call("GET", "/v1/info", map[string]string{"Authorization": "Bearer " + s.token}, ""); status != 200 {
		t.Errorf("atoll's own API: %d", status)
	}
}

// TestE2BIsOff: without the option there is no such API.
func TestE2BIsOff(t *testing.T) {
	s := newSite(t, Options{})
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/v2/sandboxes", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	res, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 404 || res.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %s", res.StatusCode, res.Header.Get("Content-Type"))
	}
}

// TestE2BSandboxesOfOthers: sandboxes that were not created with E2B's API are not seen with it.
func TestE2BSandboxesOfOthers(t *testing.T) {
	s := newE2BSite(t)
	sb, err := s.fleet.Account(fleet.Caller{Owner: atoll.Owner{App: "app", User: "alice"}, Scopes: []atoll.Scope{atoll.ScopeRun}}).Create(t.Context(), atoll.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if text := s.control("GET", "/v2/sandboxes", "", 200, nil); strings.Contains(text, sb.ID()) {
		t.Error("it is listed")
	}
	s.control("DELETE", "/sandboxes/"+sb.ID(), "", 404, nil)
}

// FuzzE2B: whatever is sent, the answer is no internal error, and another owner's sandbox stays.
func FuzzE2B(f *testing.F) {
	for _, seed := range [][3]string{
		{"POST", "/v2/sandboxes", `{"templateID":"base"}`},
		{"GET", "/v2/sandboxes?metadata=a%253Db&limit=1", ""},
		{"POST", "/process.Process/Start", frame(`{"process":{"cmd":"true"}}`)},
		{"POST", "/process.Process/Connect", frame(`{"process":{"pid":1}}`)},
		{"POST", "/filesystem.Filesystem/ListDir", `{"path":"/","depth":1}`},
		{"GET", "/files?path=/etc", ""},
		{"POST", "/files?path=x", "data"},
		{"POST", "/v3/templates", `{"name":"a:b"}`},
		{"PUT", "/sandboxes/x/network", `{"allowOut":["a"]}`},
		{"POST", "/contexts", `{}`},
		{"POST", "/execute", `{"code":"1"}`},
		{"POST", "/filesystem.Filesystem/Move", `{"source":"a","destination":"b"}`},
		{"POST", "/volumes", `{"name":"v"}`},
	} {
		f.Add(seed[0], seed[1], seed[2], true)
		f.Add(seed[0], seed[1], seed[2], false)
	}
	s := newE2BSite(f)
	f.Fuzz(func(t *testing.T, method, path, body string, stream bool) {
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, bytes.NewReader([]byte(body)))
		if err != nil {
			return
		}
		kind := "application/json"
		if stream {
			kind = "application/connect+json"
		}
		for k, v := range s.dataHeader(kind) {
			r.Header.Set(k, v)
		}
		r.Header.Set("Connect-Timeout-Ms", "200")
		if e2b.KindOf(&http.Request{URL: r.URL, Header: http.Header{}}) == e2b.Control {
			r.Header = http.Header{"X-Api-Key": {s.key}, "Content-Type": {kind}}
		}
		res, err := s.client.Do(r)
		if err != nil {
			return // net/http refuses it
		}
		b, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode == 500 {
			t.Errorf("%s %s %q: %s", method, path, body, b)
		}
	})
}

package git_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// packedObject is an object of a test's pack: the bytes between its head and its compressed data are extra.
type packedObject struct {
	kind byte
	size int
	data []byte
	more []byte
	name [20]byte
}

func deflate(b []byte) []byte {
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	if _, err := w.Write(b); errors.Join(err, w.Close()) != nil {
		panic(err)
	}
	return z.Bytes()
}

func blobName(b string) [20]byte { return sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(b), b)) }

// buildTestPack returns a pack and its index.
func buildTestPack(objects []packedObject) (pack, index []byte) {
	pack = binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objects)))
	type row struct {
		name [20]byte
		at   uint32
		crc  uint32
	}
	var rows []row
	for _, o := range objects {
		at := len(pack)
		c, size := o.kind<<4|byte(o.size&15), o.size>>4
		for ; size > 0; size >>= 7 {
			pack = append(pack, c|0x80)
			c = byte(size & 0x7f)
		}
		pack = append(append(append(pack, c), o.more...), o.data...)
		rows = append(rows, row{o.name, uint32(at), crc32.ChecksumIEEE(pack[at:])})
	}
	sum := sha1.Sum(pack)
	pack = append(pack, sum[:]...)
	slices.SortFunc(rows, func(a, b row) int { return bytes.Compare(a.name[:], b.name[:]) })
	index = []byte("\xfftOc\x00\x00\x00\x02")
	for first := range 256 {
		n := 0
		for _, r := range rows {
			if int(r.name[0]) <= first {
				n++
			}
		}
		index = binary.BigEndian.AppendUint32(index, uint32(n))
	}
	for _, r := range rows {
		index = append(index, r.name[:]...)
	}
	for _, r := range rows {
		index = binary.BigEndian.AppendUint32(index, r.crc)
	}
	for _, r := range rows {
		index = binary.BigEndian.AppendUint32(index, r.at)
	}
	index = append(index, sum[:]...)
	sum = sha1.Sum(index)
	return pack, append(index, sum[:]...)
}

// packSandbox returns a sandbox with a repository that has a pack.
func packSandbox(t *testing.T, pack, index []byte) *commandtest.Sandbox {
	t.Helper()
	s := commandtest.NewWithShell(t, "/w")
	s.Env = append(s.Env, identity...)
	s.WriteFile("a", "one\n")
	for _, line := range []string{"git init -q", "git add a", "git commit -qm a"} {
		runGit(t, s, line)
	}
	s.WriteFile(".git/objects/pack/pack-"+strings.Repeat("1", 40)+".pack", string(pack))
	s.WriteFile(".git/objects/pack/pack-"+strings.Repeat("1", 40)+".idx", string(index))
	return s
}

// checkEnded checks that a command left nothing behind.
func checkEnded(t *testing.T, s *commandtest.Sandbox, what string) {
	t.Helper()
	if n := s.Kernel.Memory(); n != 0 {
		t.Errorf("%s: %d bytes stay charged", what, n)
	}
	if list := s.Kernel.Incidents(); len(list) > 0 {
		t.Errorf("%s: %s\n%s", what, list[0].Value, list[0].Stack)
	}
}

// TestHostilePacks gives git packs that lie about sizes and bases.
func TestHostilePacks(t *testing.T) {
	a, b := [20]byte{0xaa}, [20]byte{0xbb}
	delta := []byte{5, 5, 0x90, 5}
	good := blobName("hello")
	bomb := deflate(make([]byte, 100<<20))
	growing := append([]byte{5}, 0xff, 0xff, 0xff, 0x7f) // a result of 256 MiB
	for _, c := range []struct {
		name    string
		objects []packedObject
		ask     [20]byte
		code    int
		want    string
	}{
		{"good", []packedObject{{3, 5, deflate([]byte("hello")), nil, good}}, good, 0, ""},
		{"deltas that are each other's base", []packedObject{{7, len(delta), deflate(delta), b[:], a}, {7, len(delta), deflate(delta), a[:], b}}, a, 128, "corrupt"},
		{"delta whose base is itself", []packedObject{{7, len(delta), deflate(delta), a[:], a}}, a, 128, "corrupt"},
		{"base before the pack", []packedObject{{6, len(delta), deflate(delta), []byte{0xff, 0xff, 0x7f}, a}}, a, 128, "corrupt"},
		{"base at offset zero", []packedObject{{6, len(delta), deflate(delta), []byte{0}, a}}, a, 128, "corrupt"},
		{"huge size", []packedObject{{3, 1 << 38, deflate([]byte("x")), nil, a}}, a, 137, "memory limit"},
		{"more data than announced", []packedObject{{3, 5, bomb, nil, a}}, a, 128, "corrupt"},
		{"less data than announced", []packedObject{{3, 500, deflate([]byte("x")), nil, a}}, a, 128, "corrupt"},
		{"huge result of a delta", []packedObject{{3, 5, deflate([]byte("hello")), nil, good}, {7, len(growing), deflate(growing), good[:], a}}, a, 137, "memory limit"},
		{"kind 5", []packedObject{{5, 1, deflate([]byte("x")), nil, a}}, a, 128, "corrupt"},
		{"no data", []packedObject{{3, 5, nil, nil, a}}, a, 128, "corrupt"},
	} {
		pack, index := buildTestPack(c.objects)
		s := packSandbox(t, pack, index)
		o := s.Exec("", "git", "cat-file", "-p", hex.EncodeToString(c.ask[:]))
		if o.Code != c.code || !strings.Contains(o.Stderr, c.want) {
			t.Errorf("%s: %d %.200q", c.name, o.Code, o.Stderr)
		}
		checkEnded(t, s, c.name)
	}
}

// TestChangedPacks changes random bytes of a pack and of its index.
func TestChangedPacks(t *testing.T) {
	good := blobName("hello")
	delta := []byte{5, 6, 0x90, 5, 1, '!'}
	pack, index := buildTestPack([]packedObject{{3, 5, deflate([]byte("hello")), nil, good}, {7, len(delta), deflate(delta), good[:], blobName("hello!")}})
	name := blobName("hello!")
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		p, x := slices.Clone(pack), slices.Clone(index)
		for range 1 + random.IntN(3) {
			if random.IntN(2) == 0 {
				p[random.IntN(len(p))] = byte(random.Uint32())
			} else {
				x[random.IntN(len(x))] = byte(random.Uint32())
			}
		}
		if random.IntN(5) == 0 {
			p = p[:random.IntN(len(p))]
		}
		s := packSandbox(t, p, x)
		commandtest.RunHostile(t, s, "", "git", "cat-file", "-p", hex.EncodeToString(name[:]))
		commandtest.RunHostile(t, s, "", "git", "log", "--all")
		checkEnded(t, s, fmt.Sprintf("round %d", round))
	}
}

// TestNothingIsRun checks that settings and attributes start no program. Hooks and aliases of the user do.
func TestNothingIsRun(t *testing.T) {
	s := commandtest.NewWithShell(t, "/w")
	s.Env = append(s.Env, identity...)
	s.WriteFile("a", "one\n")
	runGit(t, s, "git init -q")
	s.Must(s.FS.WriteFile("/w/.git/hooks/fsmonitor-watchman", []byte("#!/bin/cp a ran\n"), 0o755))
	for _, setting := range []string{"core.fsmonitor", "core.editor", "core.pager", "core.sshCommand", "diff.external", "credential.helper", "filter.x.clean", "filter.x.smudge", "merge.x.driver", "gpg.program", "uploadpack.packObjectsHook"} {
		runGit(t, s, "git config "+setting+" '!cp a ran'")
	}
	s.WriteFile(".gitattributes", "* filter=x diff=x merge=x\n")
	for _, line := range []string{"git add .", "git commit -qm a", "git checkout -q -b b", "git status", "git diff HEAD", "git log -p", "git merge -q b", "git clone -q . copy", "git -C copy push"} {
		s.Exec("", commandtest.SplitWords(line)...)
	}
	if _, err := s.FS.Lstat("/w/ran"); err == nil {
		t.Error("git ran a program")
	}
}

// TestHostileServer answers a clone with refs and packs that no server should send.
func TestHostileServer(t *testing.T) {
	good := blobName("hello")
	pack, _ := buildTestPack([]packedObject{{3, 5, deflate([]byte("hello")), nil, good}})
	packet := func(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }
	id := hex.EncodeToString(good[:])
	for name, c := range map[string]struct{ refs, answer string }{
		"refs outside":      {packet(id+" HEAD\x00symref=HEAD:refs/heads/../../../x\n") + packet(id+" refs/heads/../../../../evil\n") + packet(id+" refs/heads/.lock\n") + "0000", packet("NAK\n") + packet("\x01"+string(pack)) + "0000"},
		"no pack":           {packet(id+" refs/heads/main\x00 x\n") + "0000", packet("NAK\n") + "0000"},
		"another object":    {packet(strings.Repeat("ab", 20)+" refs/heads/main\x00 x\n") + "0000", packet("NAK\n") + packet("\x01"+string(pack)) + "0000"},
		"wrong sum":         {packet(id+" refs/heads/main\x00 x\n") + "0000", packet("NAK\n") + packet("\x01"+string(pack[:len(pack)-1])+"x") + "0000"},
		"endless abilities": {"000eversion 2\n" + numbered("x%d="+strings.Repeat("y", 900)+"\n", 1<<17), ""},
		"endless borders":   {packet(id+" refs/heads/main\x00 x\n") + "0000", numbered("shallow %040d\n", 1<<20)},
		"endless refs":      {strings.Repeat(packet(id+" refs/heads/main\n"), 1<<19), ""},
		"bad packets":       {"zzzz", ""},
		"an error":          {packet("ERR go away"), ""},
		"endless data":      {packet(id+" refs/heads/main\x00 x\n") + "0000", packet("NAK\n") + strings.Repeat(packet("\x01"+strings.Repeat("x", 60000)), 3000)},
		"millions of them":  {packet(id+" refs/heads/main\x00 x\n") + "0000", packet("NAK\n") + packet("\x01PACK\x00\x00\x00\x02\xff\xff\xff\xff"+string(pack[12:])) + "0000"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/info/refs") {
				w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
				_, _ = io.WriteString(w, packet("# service=git-upload-pack\n")+"0000"+c.refs) // the client may hang up
				return
			}
			_, _ = io.WriteString(w, c.answer) // likewise
		}))
		s := networkSandbox(t)
		o, err := s.RunBounded(20*time.Second, strings.NewReader(""), nil, "git", "clone", server.URL+"/x", "to")
		if err != nil || name != "refs outside" && o.Code == 0 {
			t.Errorf("%s: %v %d %.300q", name, err, o.Code, o.Stderr)
		}
		for _, path := range []string{"/evil", "/w/evil", "/x", "/w/x", "/w/to/.git/evil", "/w/to/evil"} {
			if _, err := s.FS.Lstat(path); err == nil {
				t.Errorf("%s: the clone wrote %s", name, path)
			}
		}
		checkEnded(t, s, name)
		server.Close()
	}
}

// numbered returns packets with the numbers from 0 on.
func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		line := fmt.Sprintf(format, i)
		fmt.Fprintf(&b, "%04x%s", len(line)+4, line)
	}
	return b.String()
}

// TestRedirects checks that a bad redirect ends the command, and that a password and extra headers are not sent to another host.
func TestRedirects(t *testing.T) {
	var got http.Header
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		http.NotFound(w, r)
	}))
	defer other.Close()
	to := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	}))
	defer server.Close()
	user := strings.Replace(server.URL, "http://", "http://me:secret@", 1)
	for _, c := range []struct{ to, want string }{
		{":%zz", "redirection"},
		{"", "redirects followed"},
		{"file:///x/info/refs?service=git-upload-pack", "redirection"},
		{"/elsewhere", "redirection"},
		{other.URL + "/x/info/refs?service=git-upload-pack", "not found"},
	} {
		to = c.to
		s := networkSandbox(t)
		o, err := s.RunBounded(20*time.Second, strings.NewReader(""), nil, "git", "-c", "http.extraHeader=X-Key: secret", "clone", user+"/x", "to")
		if err != nil || o.Code != 128 || !strings.Contains(o.Stderr, c.want) {
			t.Errorf("%q: %v %d %.300q", c.to, err, o.Code, o.Stderr)
		}
	}
	if got == nil || got.Get("Authorization") != "" || got.Get("X-Key") != "" {
		t.Errorf("the other host got %v", got)
	}
}

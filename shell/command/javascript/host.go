package javascript

import (
	"context"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

// answer answers a request of the script, on the goroutine of the process. Texts begin with =, errors with !.
func (e *engine) answer(op string, args []any) any {
	p := e.p
	text := func(i int) string {
		if i >= len(args) {
			return ""
		}
		s, _ := args[i].(string) // null: empty
		return s
	}
	flag := func(i int) bool { return i < len(args) && args[i] == true }
	n := int64(0)
	for i := range args {
		n += 3 * int64(len(text(i)))
	}
	p.Alloc(n)
	defer p.Free(n)
	p.Tick(8)
	switch op {
	case "out":
		_, err := p.Stdout.WriteString(text(0))
		return e.result("", err, "write", "")
	case "err":
		_, _ = p.Stderr.WriteString(text(0)) // best effort
		return nil
	case "sleep":
		ms, _ := args[0].(float64)
		p.Sleep(time.Duration(ms*float64(time.Millisecond)), false)
		return nil
	case "pid":
		return p.PID()
	case "random":
		return e.random(toInt(args[0]))
	case "chdir":
		return e.result(p.Path(text(0)), p.Chdir(text(0)), "chdir", text(0))
	case "uname":
		return "=" + map[string]string{"r": "6.1.0", "n": "atoll"}[text(0)]
	case "hash":
		return e.hash(text(0), args[1], text(2))
	case "run":
		return e.runChild(text(0), text(1))
	case "fetch":
		return e.fetch(text(0), text(1))
	case "stdin":
		b, err := p.ReadAll(p.Stdin)
		defer p.Free(int64(cap(b)))
		return e.result(latin1(b), err, "read", "")
	}
	return e.answerFile(op, text, flag, args)
}

func (e *engine) random(n int) any {
	if n < 0 || n > 1<<20 {
		return "!ERR_OUT_OF_RANGE\x01\x01\x01at most 1 MiB of random bytes at once"
	}
	b := make([]byte, n)
	e.p.Rand(b)
	return "=" + latin1(b)
}

// answerFile answers a request about files.
func (e *engine) answerFile(op string, text func(int) string, flag func(int) bool, args []any) any {
	p, name := e.p, text(0)
	switch op {
	case "read", "readText":
		b, err := e.readFile(name)
		defer p.Free(int64(cap(b)))
		if op == "read" {
			return e.result(latin1(b), err, "open", name)
		}
		return e.result(strings.ToValidUTF8(string(b), "\uFFFD"), err, "open", name)
	case "write", "writeText":
		data := []byte(text(1))
		if op == "write" {
			data = fromLatin1(text(1))
		}
		return e.result("", e.writeFile(name, data, text(2), args), "open", name)
	case "stat":
		return e.stat(name, flag(1))
	case "readdir":
		return e.readDir(name)
	case "mkdir":
		if flag(1) {
			return e.result("", p.MkdirAll(name, 0o777), op, name)
		}
		return e.result("", p.Mkdir(name, 0o777), op, name)
	case "rm":
		return e.remove(name, flag(1), flag(2))
	case "rmdir":
		return e.result("", p.Rmdir(name), op, name)
	case "unlink":
		return e.result("", p.Unlink(name), op, name)
	case "rename":
		return e.result("", p.Rename(name, text(1)), op, name)
	case "copy":
		b, err := e.readFile(name)
		defer p.Free(int64(cap(b)))
		if err == nil {
			err = e.writeFile(text(1), b, "w", nil)
		}
		return e.result("", err, "copyfile", name)
	case "chmod":
		return e.result("", p.Chmod(name, fs.FileMode(toInt(args[1])&0o777)), op, name)
	case "symlink":
		return e.result("", p.Symlink(name, text(1)), op, name)
	case "link":
		return e.result("", p.Link(name, text(1)), op, name)
	case "readlink":
		target, err := p.Readlink(name)
		return e.result(target, err, op, name)
	case "realpath":
		target, err := p.Resolve(name)
		return e.result(target, err, op, name)
	case "truncate":
		return e.result("", p.Truncate(name, int64(toInt(args[1]))), op, name)
	case "utimes":
		ms, _ := args[1].(float64)
		at := time.UnixMilli(int64(ms) + int64(toInt(args[1]))*boolInt(ms == 0))
		return e.result("", p.Chtimes(name, at, at), op, name)
	}
	return "!ENOSYS\x01" + op + "\x01\x01function not implemented"
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// result returns the reply for a text or an error.
func (e *engine) result(text string, err error, call, name string) any {
	if err == nil {
		return "=" + text
	}
	code, words := "EIO", "i/o error"
	var no vfs.Errno
	if errors.As(err, &no) {
		code, words = errnoName(no), strings.ToLower(no.Error())
	}
	return "!" + strings.Join([]string{code, call, name, words}, "\x01")
}

// errnoName returns the name of an error as node says it.
func errnoName(no vfs.Errno) string {
	for _, n := range []struct {
		no   vfs.Errno
		name string
	}{{vfs.ENOENT, "ENOENT"}, {vfs.EACCES, "EACCES"}, {vfs.EEXIST, "EEXIST"}, {vfs.ENOTDIR, "ENOTDIR"}, {vfs.EISDIR, "EISDIR"}, {vfs.ENOTEMPTY, "ENOTEMPTY"}, {vfs.EINVAL, "EINVAL"}, {vfs.ENOSPC, "ENOSPC"}, {vfs.EBADF, "EBADF"}, {vfs.ELOOP, "ELOOP"}, {vfs.EAGAIN, "EAGAIN"}} {
		if no == n.no {
			return n.name
		}
	}
	return "EIO"
}

func (e *engine) readFile(name string) ([]byte, error) {
	info, err := e.p.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, vfs.EISDIR
	}
	return e.p.ReadFile(name)
}

func (e *engine) writeFile(name string, data []byte, flag string, args []any) error {
	mode := os.O_WRONLY | os.O_CREATE
	switch {
	case strings.HasPrefix(flag, "a"):
		mode |= os.O_APPEND
	default:
		mode |= os.O_TRUNC
	}
	if strings.Contains(flag, "x") {
		mode |= os.O_EXCL
	}
	perm := fs.FileMode(0o666)
	if len(args) > 3 {
		if n := toInt(args[3]); n > 0 {
			perm = fs.FileMode(n & 0o777)
		}
	}
	h, err := e.p.OpenFile(name, mode, perm)
	if err != nil {
		return err
	}
	_, err = h.Write(data)
	return errors.Join(err, h.Close())
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "d"
	case m&fs.ModeSymlink != 0:
		return "l"
	case m&fs.ModeNamedPipe != 0:
		return "p"
	case m&fs.ModeCharDevice != 0:
		return "c"
	}
	return "f"
}

func (e *engine) stat(name string, follow bool) any {
	info, err := e.p.Lstat(name)
	call := "lstat"
	if follow {
		call = "stat"
		info, err = e.p.Stat(name)
	}
	if err != nil {
		return e.result("", err, call, name)
	}
	mode := uint32(info.Mode().Perm()) | map[string]uint32{"d": 0o040000, "l": 0o120000, "p": 0o010000, "c": 0o020000, "f": 0o100000}[kindOf(info.Mode())]
	return fmt.Sprintf("=%d,%d,%d,%d,%s,%d,%d,%d", mode, info.Size(), info.ModTime().UnixMilli(), info.Ino(), kindOf(info.Mode()), 0, 0, 1)
}

func (e *engine) readDir(name string) any {
	before := e.p.Charged()
	defer func() { e.p.Free(e.p.Charged() - before) }()
	list, err := e.p.ReadDir(name)
	if err != nil {
		return e.result("", err, "scandir", name)
	}
	var b strings.Builder
	for i, d := range list {
		e.p.Tick(1)
		e.p.Alloc(int64(len(d.Name())) + 2)
		if i > 0 {
			b.WriteByte(0)
		}
		b.WriteString(kindOf(d.Type()) + d.Name())
	}
	return "=" + b.String()
}

func (e *engine) remove(name string, recursive, force bool) any {
	info, err := e.p.Lstat(name)
	switch {
	case err != nil && force && errors.Is(err, vfs.ENOENT):
		return "="
	case err != nil:
		return e.result("", err, "rm", name)
	case info.IsDir() && !recursive:
		return "!ERR_FS_EISDIR\x01rm\x01" + name + "\x01Path is a directory: rm returned EISDIR (is a directory)"
	case recursive:
		return e.result("", e.p.RemoveAll(name), "rm", name)
	}
	return e.result("", e.p.Unlink(name), "rm", name)
}

// latin1 returns bytes as a text of one character for each.
func latin1(b []byte) string {
	var s strings.Builder
	s.Grow(len(b) + len(b)/2)
	for _, c := range b {
		s.WriteRune(rune(c))
	}
	return s.String()
}

// fromLatin1 is the reverse of latin1.
func fromLatin1(s string) []byte {
	b := make([]byte, 0, len(s))
	for _, c := range s {
		b = append(b, byte(c))
	}
	return b
}

func (e *engine) hash(name string, key any, data string) any {
	create := map[string]func() hash.Hash{"md5": md5.New, "sha1": sha1.New, "sha224": sha256.New224, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}[strings.ReplaceAll(strings.ToLower(name), "-", "")]
	if create == nil {
		return "!ERR_CRYPTO_INVALID_DIGEST\x01\x01\x01Invalid digest: " + name + "; md5, sha1, sha224, sha256, sha384 and sha512 are supported"
	}
	h := create()
	if k, ok := key.(string); ok {
		h = hmac.New(create, fromLatin1(k))
	}
	e.p.Tick(len(data) >> 6)
	_, _ = h.Write(fromLatin1(data)) // a hash takes everything
	return "=" + latin1(h.Sum(nil))
}

// childRequest describes a command that a script runs.
type childRequest struct {
	Args       []string `json:"args"`
	Dir        string   `json:"cwd"`
	Env        []string `json:"env"`
	Inherit    bool     `json:"inherit"`
	InheritErr bool     `json:"inheritErr"`
	Stdin      bool     `json:"stdin"`
}

// childReply is how the command ended.
type childReply struct {
	PID     int    `json:"pid"`
	Status  int    `json:"status"`
	Signal  string `json:"signal,omitempty"`
	Stdout  []byte `json:"stdout"`
	Stderr  []byte `json:"stderr"`
	Error   string `json:"error,omitempty"`
	Inherit bool   `json:"inherit"`
}

// runChild runs a command of the sandbox and returns its output.
func (e *engine) runChild(text, input string) any {
	var r childRequest
	if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Args) == 0 {
		return "!EINVAL\x01spawn\x01\x01invalid arguments"
	}
	p := e.p
	s, err := p.Command(r.Args)
	if err != nil {
		return reply(childReply{Error: "ENOENT"})
	}
	s.Env, s.Dir = r.Env, r.Dir
	if !r.Stdin {
		in := p.OpenMemory(fromLatin1(input))
		defer in.Release()
		s.Stdin = in
	}
	var out, errs *kernel.Buffer
	if !r.Inherit {
		var f *kernel.FileDescription
		out, f = p.Buffer()
		defer out.Close()
		s.Stdout = f
	}
	if !r.InheritErr {
		var f *kernel.FileDescription
		errs, f = p.Buffer()
		defer errs.Close()
		s.Stderr = f
	}
	st, err := p.Call(s)
	for _, f := range []*kernel.FileDescription{s.Stdout, s.Stderr} {
		if f != nil {
			f.Release()
		}
	}
	if err != nil {
		return reply(childReply{Error: "EAGAIN"})
	}
	a := childReply{PID: p.PID() + 1, Status: st.Code, Inherit: r.Inherit}
	if st.Signal != 0 {
		a.Signal = "SIG" + strings.TrimPrefix(st.Signal.String(), "SIG")
	}
	if out != nil {
		a.Stdout = out.Wait()
	}
	if errs != nil {
		a.Stderr = errs.Wait()
	}
	n := 3 * int64(len(a.Stdout)+len(a.Stderr))
	p.Alloc(n)
	defer p.Free(n)
	return reply(a)
}

func reply(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		return "!EIO\x01\x01\x01" + err.Error()
	}
	return "=" + string(b)
}

// fetchRequest is a request of fetch.
type fetchRequest struct {
	URL      string      `json:"url"`
	Method   string      `json:"method"`
	Headers  [][2]string `json:"headers"`
	Redirect string      `json:"redirect"`
}

// fetchReply is the response to it.
type fetchReply struct {
	URL        string      `json:"url"`
	Status     int         `json:"status"`
	StatusText string      `json:"statusText"`
	Headers    [][2]string `json:"headers"`
	Body       []byte      `json:"body"`
	Redirected bool        `json:"redirected"`
}

// maxBody is the largest body of a response.
const maxBody = 16 << 20

// fetch sends a request through the network of the sandbox.
func (e *engine) fetch(text, body string) any {
	var r fetchRequest
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return "!EINVAL\x01fetch\x01\x01" + err.Error()
	}
	network := e.p.Network()
	if network == nil {
		return "!ENETUNREACH\x01\x01\x01this sandbox has no network; hosts are allowed when it is created (--allow HOST)"
	}
	var a fetchReply
	err := e.p.Await(func(ctx context.Context) error {
		client := &http.Client{Transport: network}
		if r.Redirect != "follow" {
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		}
		req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, strings.NewReader(string(fromLatin1(body))))
		if err != nil {
			return err
		}
		for _, h := range r.Headers {
			req.Header.Add(h[0], h[1])
		}
		res, err := client.Do(req)
		if err != nil {
			var outer *url.Error
			if errors.As(err, &outer) {
				err = outer.Err
			}
			return err
		}
		defer func() { _ = res.Body.Close() }() // it was only read
		a = fetchReply{URL: res.Request.URL.String(), Status: res.StatusCode, StatusText: http.StatusText(res.StatusCode), Redirected: res.Request.URL.String() != r.URL}
		for name, values := range res.Header {
			for _, v := range values {
				a.Headers = append(a.Headers, [2]string{name, v})
			}
		}
		a.Body, err = io.ReadAll(io.LimitReader(res.Body, min(maxBody, e.p.FreeMemory()/4)+1))
		if err == nil && int64(len(a.Body)) > min(maxBody, e.p.FreeMemory()/4) {
			err = errors.New("the response is too long: use curl -o FILE")
		}
		return err
	})
	if err != nil {
		return "!ECONNREFUSED\x01\x01\x01" + err.Error()
	}
	n := 3 * int64(len(a.Body))
	e.p.Alloc(n)
	defer e.p.Free(n)
	return reply(a)
}

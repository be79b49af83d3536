package daytona

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerSignatures registers the routes of the keys by which clients sign URLs of files.
func (s *Server) registerSignatures() {
	s.addSandbox("GET", "/signing-key", s.getSigningKey)
	s.addSandbox("POST", "/signing-key/rotate", s.rotateSigningKey)
}

// signingKey returns the key by which URLs of files of a sandbox are signed. It is derived from the access
// key of the sandbox and the number of its rotations.
func signingKey(accessKey, rotations string) string {
	m := hmac.New(sha256.New, []byte(accessKey))
	_, _ = m.Write([]byte("daytona files " + rotations)) // never fails
	return hex.EncodeToString(m.Sum(nil))
}

func (s *Server) getSigningKey(c *call, sb *fleet.Sandbox) error {
	key, err := sb.AccessKey(c.r.Context())
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, signingKey(key, sb.Labels()[labelSigning]))
}

// rotateSigningKey makes all URLs invalid that were signed before, and answers with the new key.
func (s *Server) rotateSigningKey(c *call, sb *fleet.Sandbox) error {
	n, _ := strconv.Atoi(sb.Labels()[labelSigning]) // 0 if there was none
	if err := setLabels(c.r.Context(), c.a, sb, map[string]string{labelSigning: strconv.Itoa(n + 1)}); err != nil {
		return err
	}
	key, err := sb.AccessKey(c.r.Context())
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, signingKey(key, strconv.Itoa(n+1)))
}

// IsSigned reports whether a request is for a file, with a signature.
func IsSigned(r *http.Request) bool {
	_, path, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/toolbox/"), "/")
	return ok && (path == "files/download" && r.Method == http.MethodGet || path == "files/upload-v2" && r.Method == http.MethodPost) && r.URL.Query().Get("signature") != ""
}

// AuthenticateSignature returns the caller of a request with a signature, which reaches one file of one
// sandbox until a time.
func (s *Server) AuthenticateSignature(r *http.Request) (fleet.Caller, error) {
	denied := &atoll.Error{Op: "authenticate", Err: atoll.ErrDenied}
	q := r.URL.Query()
	until, err := strconv.ParseInt(q.Get("expires"), 10, 64)
	if err != nil || !time.Now().Before(time.Unix(until, 0)) || len(q["path"]) != 1 {
		return fleet.Caller{}, denied
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/toolbox/"), "/")
	if atoll.CheckID(id) != nil {
		return fleet.Caller{}, denied
	}
	accessKey := ""
	caller, err := s.opts.Fleet.FindAccessKey(r.Context(), id, func(key string) bool { accessKey = key; return true })
	if err != nil {
		return fleet.Caller{}, err
	}
	sb, err := s.opts.Fleet.Account(caller).Open(r.Context(), id)
	if err != nil {
		return fleet.Caller{}, err
	}
	m := hmac.New(sha256.New, []byte(signingKey(accessKey, sb.Labels()[labelSigning])))
	_, _ = m.Write([]byte("v1:files:" + r.Method + ":" + q.Get("path") + ":" + q.Get("expires"))) // never fails
	want := "v1_" + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
	if subtle.ConstantTimeCompare([]byte(strings.TrimRight(q.Get("signature"), "=")), []byte(want)) != 1 {
		return fleet.Caller{}, denied
	}
	return caller, nil
}

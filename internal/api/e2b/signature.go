package e2b

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// TrafficHeader has the traffic token of a sandbox: its port key, which gives access to the contexts of the
// code interpreter, too.
const TrafficHeader = "E2b-Traffic-Access-Token"

func isContexts(r *http.Request) bool {
	return r.URL.Path == "/contexts" || strings.HasPrefix(r.URL.Path, "/contexts/")
}

// authenticateTraffic returns the caller of a request with a traffic token.
func (s *Server) authenticateTraffic(r *http.Request, sandbox string) (fleet.Caller, error) {
	shown := []byte(r.Header.Get(TrafficHeader))
	return s.opts.Fleet.FindAccessKey(r.Context(), sandbox, func(key string) bool {
		return subtle.ConstantTimeCompare(shown, []byte(fleet.PortKey(key))) == 1
	})
}

// fileSignature returns the signature of a URL of a file: of its path, operation, user and expiry, as
// the SDKs compute it. The expiry is in seconds since 1970, empty if the URL does not expire.
func fileSignature(name, operation, user, key, expiry string) string {
	text := name + ":" + operation + ":" + user + ":" + key
	if expiry != "" {
		text += ":" + expiry
	}
	sum := sha256.Sum256([]byte(text))
	return "v1_" + strings.TrimRight(base64.StdEncoding.EncodeToString(sum[:]), "=")
}

// authenticateSignature returns the caller of a request for a file with a signature. Such URLs name no
// sandbox: it is the one with whose access key the signature was made.
func (s *Server) authenticateSignature(r *http.Request, sandbox string) (fleet.Caller, error) {
	q := r.URL.Query()
	operation := map[string]string{http.MethodGet: "read", http.MethodHead: "read", http.MethodPost: "write"}[r.Method]
	expiry := q.Get("signature_expiration")
	if expiry != "" {
		n, err := strconv.ParseInt(expiry, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != expiry || !time.Now().Before(time.Unix(n, 0)) {
			return fleet.Caller{}, &atoll.Error{Op: "authenticate", Err: atoll.ErrDenied}
		}
	}
	shown := []byte(q.Get("signature"))
	return s.opts.Fleet.FindAccessKey(r.Context(), sandbox, func(key string) bool {
		return subtle.ConstantTimeCompare(shown, []byte(fileSignature(q.Get("path"), operation, q.Get("username"), key, expiry))) == 1
	})
}

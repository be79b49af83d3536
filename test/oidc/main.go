// Command oidc is an OpenID Connect provider for tests: the certified library of zitadel/oidc with its example's users,
// whose groups are in ID tokens. It prints its issuer and serves until it is ended.
//
//	oidc -callback http://127.0.0.1:8484/login/company/callback
//
// Clients: web, with the secret "secret", and cli, a public one with the device flow. Users, with the password
// "verysecure": test-user@localhost in the group developers, test-user2 in the group visitors. POST /test/rotate
// replaces the signing key.
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// groups of the example's users, by id.
var groups = map[string][]string{"id1": {"staff", "developers"}, "id2": {"visitors"}}

// userIDs are the ids of the users, by name.
var userIDs = map[string]string{"test-user@localhost": "id1", "test-user2": "id2"}

// client is a client of the provider, with the device flow.
type client struct{ op.Client }

func (c client) GrantTypes() []oidc.GrantType {
	return append(c.Client.GrantTypes(), oidc.GrantTypeDeviceCode)
}

func (c client) IsScopeAllowed(scope string) bool { return scope == "groups" }

// store is the example's storage, with groups and a key that can be replaced.
type store struct {
	*storage.Storage

	mu  sync.Mutex
	key signingKey // guarded by mu
}

type signingKey struct {
	id  string
	key *rsa.PrivateKey
}

func (k signingKey) ID() string                                  { return k.id }
func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k signingKey) Key() any                                    { return k.key }

type publicKey struct{ signingKey }

func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                           { return &k.key.PublicKey }

func (s *store) rotate() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = signingKey{rand.Text(), key}
	return nil
}

func (s *store) SigningKey(context.Context) (op.SigningKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key, nil
}

func (s *store) KeySet(context.Context) ([]op.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []op.Key{publicKey{s.key}}, nil
}

func (s *store) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

func (s *store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{c}, nil
}

// CompleteDeviceAuthorization stores who has consented: the example's page gives the user's name.
func (s *store) CompleteDeviceAuthorization(ctx context.Context, code, user string) error {
	return s.Storage.CompleteDeviceAuthorization(ctx, code, userIDs[user])
}

func (s *store) SetUserinfoFromScopes(ctx context.Context, info *oidc.UserInfo, user, clientID string, scopes []string) error {
	info.AppendClaims("groups", groups[user])
	return s.Storage.SetUserinfoFromScopes(ctx, info, user, clientID, scopes)
}

func (s *store) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, r op.IDTokenRequest, scopes []string) error {
	info.AppendClaims("groups", groups[r.GetSubject()])
	return s.Storage.SetUserinfoFromRequest(ctx, info, r, scopes)
}

func main() {
	callback := flag.String("callback", "", "`URL` of atoll's callback")
	flag.Parse()
	if err := serve(*callback); err != nil {
		log.Fatal(err)
	}
}

func serve(callback string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	issuer := "http://localhost:" + port + "/"
	storage.RegisterClients(storage.NativeClient("cli"), storage.WebClient("web", "secret", callback))
	s := &store{Storage: storage.NewStorage(storage.NewUserStore(issuer))}
	if err := s.rotate(); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /test/rotate", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.rotate(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.Handle("/", exampleop.SetupServer(issuer, s, slog.New(slog.NewTextHandler(io.Discard, nil)), false, op.WithAllowInsecure()))
	fmt.Println(issuer)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(l)
}

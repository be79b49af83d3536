package deploy

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
	"github.com/atoll-sandbox/atoll/internal/testing/clustertest"
)

// TestServiceAccounts exchanges tokens of a real cluster's service accounts: one that a rule names gets its owner, others
// get nothing, nor does a token for another audience.
func TestServiceAccounts(t *testing.T) {
	cluster, err := kubernetes.NewForConfig(clustertest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := cluster.RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	keysFile := filepath.Join(home, "keys.json")
	if err := os.WriteFile(keysFile, keys, 0o600); err != nil {
		t.Fatal(err)
	}
	accounts := cluster.CoreV1().ServiceAccounts("default")
	request := func(account, audience string) string {
		t.Helper()
		lifetime := int64(600)
		r, err := accounts.CreateToken(t.Context(), account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}, ExpirationSeconds: &lifetime}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.Token
	}
	found, err := cluster.RESTClient().Get().AbsPath("/.well-known/openid-configuration").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(found), `"issuer":"`)
	issuer, _, _ := strings.Cut(rest, `"`)
	providers, err := identity.ParseProviders(`{"cluster": {"issuer": "` + issuer + `", "audience": "atoll", "keys_file": "` + keysFile + `",
		"rules": [{"claims": {"sub": "system:serviceaccount:default:default"}, "owner": "ci/build", "role": "user"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fleet.Open(t.Context(), fleet.Options{Home: home, Drivers: []atoll.Driver{virtual.New()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	web := httptest.NewServer(api.New(api.Options{Fleet: f, Identity: identity.New(identity.Options{Providers: providers})}).Handler())
	t.Cleanup(web.Close)
	c, err := client.New(client.Options{Host: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.ExchangeToken(t.Context(), request("default", "atoll"))
	if err != nil {
		t.Fatal(err)
	}
	pod, err := client.New(client.Options{Host: web.URL, Token: got.Secret})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := pod.Info(t.Context()); err != nil || info.Owner.String() != "ci/build" || info.Provider != "cluster" {
		t.Errorf("%+v %v", info, err)
	}
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := accounts.Delete(context.WithoutCancel(t.Context()), "other", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	for law, token := range map[string]string{"OtherAudience": request("default", "elsewhere"), "OtherAccount": request("other", "atoll")} {
		if _, err := c.ExchangeToken(t.Context(), token); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("%s: %v", law, err)
		}
	}
}

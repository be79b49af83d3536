package docker

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/distribution/reference"
)

// registryCredentials returns the credentials that `docker login` has stored in its file for the
// registry of an image, or an empty string. Credentials in credential helpers are not used.
func registryCredentials(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "" // the engine reports what is wrong with the name
	}
	dir := os.Getenv("DOCKER_CONFIG")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "" // without a home directory there is no login
		}
		dir = filepath.Join(home, ".docker")
	}
	var config struct {
		Auths map[string]struct{ Auth, IdentityToken string }
	}
	if readJSON(filepath.Join(dir, "config.json"), &config) != nil {
		return "" // no readable file: no login
	}
	registry := reference.Domain(named)
	key := registry
	if registry == "docker.io" {
		key = "https://index.docker.io/v1/"
	}
	kept, ok := config.Auths[key]
	if !ok {
		return ""
	}
	plain, err := base64.StdEncoding.DecodeString(kept.Auth)
	if err != nil {
		return ""
	}
	user, password, _ := strings.Cut(string(plain), ":")
	b, err := json.Marshal(map[string]string{"username": user, "password": password, "identitytoken": kept.IdentityToken, "serveraddress": key})
	if err != nil {
		return ""
	}
	return base64.URLEncoding.EncodeToString(b)
}

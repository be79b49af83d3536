package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// TestComponentsCombine renders an overlay with each set of components: the server has the settings of all of them.
func TestComponentsCombine(t *testing.T) {
	settings := map[string]string{ // a variable of each component's server
		"apart": "ATOLL_KUBERNETES_APART", "direct": "ATOLL_KUBERNETES_DIRECT", "replicas": "ATOLL_REGISTRY", "shared": "ATOLL_SHARED", "tls": "ATOLL_SERVE_TLS_CERT", "classes": "",
	}
	all := []string{"apart", "classes", "direct", "replicas", "shared", "tls"}
	for set := range 1 << len(all) {
		var chosen []string
		for i, name := range all {
			if set&(1<<i) != 0 {
				chosen = append(chosen, name)
			}
		}
		server := renderServer(t, chosen)
		if server == nil {
			continue
		}
		var env []string
		for _, e := range server.Spec.Template.Spec.Containers[0].Env {
			env = append(env, e.Name)
		}
		for name, variable := range settings {
			if variable != "" && slices.Contains(env, variable) != slices.Contains(chosen, name) {
				t.Errorf("%v: the server's variables are %v", chosen, env)
			}
		}
		if several := slices.Contains(chosen, "replicas"); several != (*server.Spec.Replicas == 2) {
			t.Errorf("%v: %d servers", chosen, *server.Spec.Replicas)
		}
	}
}

// renderServer renders an overlay with components and returns its Deployment.
func renderServer(t *testing.T, components []string) *appsv1.Deployment {
	t.Helper()
	for doc := range strings.SplitSeq(renderOverlay(t, components), "\n---\n") {
		var found appsv1.Deployment
		if err := yaml.Unmarshal([]byte(doc), &found); err == nil && found.Kind == "Deployment" {
			return &found
		}
	}
	t.Errorf("%v: there is no server", components)
	return nil
}

// renderOverlay renders an overlay with components.
func renderOverlay(t *testing.T, components []string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Abs("../../deploy/kubernetes")
	if err == nil {
		manifests, err = filepath.Rel(dir, manifests)
	}
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("resources: [%s/base]\ncomponents:\n", manifests)
	for _, c := range components {
		text += fmt.Sprintf("- %s/components/%s\n", manifests, c)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), kustomize, dir).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v: %s", components, err, out)
	}
	return string(out)
}

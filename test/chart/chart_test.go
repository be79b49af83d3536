package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, "the modules of Helm and kustomize", buildAndRun))
}

// The programs that render, built by buildAndRun from modules of their own.
var helm, kustomize string

// buildAndRun builds the programs that render, and runs the tests.
func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "chart-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	helm, kustomize = filepath.Join(dir, "helm"), filepath.Join(dir, "kustomize")
	for program, module := range map[string]string{helm: "helm", kustomize: "../deploy/render"} {
		build := exec.Command("go", "build", "-o", program, ".")
		build.Dir = module
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building %s: %v: %s\n", module, err, out)
			return 1
		}
	}
	return m.Run()
}

// chartValues are the values of the chart that do what a component does.
var chartValues = map[string]string{
	"apart": "sandboxes: {apart: true}", "classes": "classes: true", "direct": "direct: true", "encryption": "encryption: {enabled: true}", "monitor": "monitor: {enabled: true}",
	"replicas": "replicas: 2", "shared": "shared: {enabled: true}", "tls": "tls: {enabled: true}",
}

// renderChart renders the chart with values. The error has the output of Helm.
func renderChart(t *testing.T, values ...string) ([]map[string]any, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(values, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), helm, "../../deploy/chart", file)
	var messages strings.Builder
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, messages.String())
	}
	return parseObjects(t, string(out)), nil
}

// parseObjects parses YAML documents. Lists in which the order has no meaning are sorted, and the
// configuration of the server is parsed.
func parseObjects(t *testing.T, text string) (list []map[string]any) {
	t.Helper()
	for doc := range strings.SplitSeq("\n"+text, "\n---") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
			t.Fatalf("%v: %s", err, doc)
		}
		if len(object) == 0 {
			continue
		}
		if data, ok := object["data"].(map[string]any); ok {
			var config map[string]any
			if err := yaml.Unmarshal([]byte(data["atoll.yaml"].(string)), &config); err != nil {
				t.Fatal(err)
			}
			data["atoll.yaml"] = config
		}
		sortNamed(object)
		list = append(list, object)
	}
	return list
}

// sortNamed sorts the lists of an object whose elements all have names: variables, volumes, mounts.
func sortNamed(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			sortNamed(e)
		}
	case []any:
		name := func(e any) string {
			m, _ := e.(map[string]any)
			text, _ := m["name"].(string)
			return text
		}
		if !slices.ContainsFunc(v, func(e any) bool { return name(e) == "" }) {
			slices.SortFunc(v, func(a, b any) int { return strings.Compare(name(a), name(b)) })
		}
		for _, e := range v {
			sortNamed(e)
		}
	}
}

// nameOf returns kind, namespace and name of an object.
func nameOf(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	return fmt.Sprint(object["kind"], " ", meta["namespace"], "/", meta["name"])
}

// byName returns objects by their names, without the namespace of the server, which Helm creates.
func byName(t *testing.T, list []map[string]any) map[string]any {
	t.Helper()
	all := make(map[string]any)
	for _, object := range list {
		name := nameOf(object)
		if name == "Namespace <nil>/atoll-system" {
			continue
		}
		if all[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		all[name] = object
	}
	return all
}

// TestChartEqualsKustomize renders the chart and the kustomizations with each component alone, with each
// pair and with all of them: both make the same objects.
func TestChartEqualsKustomize(t *testing.T) {
	dirs, err := os.ReadDir("../../deploy/kubernetes/components")
	if err != nil || len(dirs) != len(chartValues) {
		t.Errorf("%d components, %v; the values of %d", len(dirs), err, len(chartValues))
	}
	sets := [][]string{nil, {}}
	for _, d := range dirs {
		sets[1] = append(sets[1], d.Name())
		for _, e := range dirs {
			if d.Name() <= e.Name() {
				sets = append(sets, slices.Compact([]string{d.Name(), e.Name()}))
			}
		}
	}
	for _, set := range sets {
		if slices.Contains(set, "monitor") && slices.Contains(set, "tls") {
			continue // the component leaves the scheme to an overlay
		}
		t.Run(strings.Join(append(set, "base"), "+"), func(t *testing.T) {
			var values []string
			for _, component := range set {
				values = append(values, chartValues[component])
			}
			made, err := renderChart(t, values...)
			if err != nil {
				t.Fatal(err)
			}
			want := byName(t, parseObjects(t, renderOverlay(t, set)))
			if diff := cmp.Diff(want, byName(t, made)); diff != "" || len(want) < 8 {
				t.Errorf("%d objects; kustomize -, Helm +:\n%s", len(want), diff)
			}
		})
	}
}

// TestChartValues checks what the components have no equal of.
func TestChartValues(t *testing.T) {
	for law, k := range map[string]struct {
		values string
		want   []string // parts of the objects as JSON
	}{
		"RuntimeClass":    {"sandboxes: {runtimeClass: gvisor}", []string{`"runtime_class":"gvisor"`}},
		"OtherNamespace":  {"sandboxes: {namespace: boxes}", []string{`"namespace":"boxes"`, `"kubernetes":{"namespace":"boxes"}`}},
		"ExistingOne":     {"sandboxes: {create: false}", []string{`"kind":"Role"`}},
		"SeveralClusters": {"kubeconfig: {secret: clusters}\nconfig: {kubernetes: {apps: {batch: {context: other, namespace: boxes}}}}", []string{`"secretName":"clusters"`, `"kubeconfig":"/etc/atoll-clusters/config"`, `"batch":{"context":"other","namespace":"boxes"}`}},
		"NeverOneNode":    {"replicas: 3\nspread: DoNotSchedule", []string{`"replicas":3`, `"whenUnsatisfiable":"DoNotSchedule"`}},
		"Config":          {"config: {serve: {grace: 1m}, retention: {audit: 365d}}", []string{`"grace":"1m"`, `"audit":"365d"`, `"listen":["0.0.0.0:8484"]`}},
		"HostNames":       {"hostNames: [atoll.example.com]", []string{`"atoll.atoll-system.svc.cluster.local","atoll.example.com"`}},
		"Quota":           {"sandboxes: {apart: true, quota: {pods: '7'}}", []string{`\"pods\":\"7\"`}},
		"Nodes":           {"nodeSelector: {pool: x}\ntolerations: [{operator: Exists}]\nimage: {pullSecrets: [reg]}", []string{`"nodeSelector":{"pool":"x"}`, `"tolerations":[{"operator":"Exists"}]`, `"imagePullSecrets":[{"name":"reg"}]`}},
		"MonitorWithTLS":  {"monitor: {enabled: true}\ntls: {enabled: true}", []string{`"scheme":"https"`, `"serverName":"atoll.atoll-system.svc"`}},
	} {
		t.Run(law, func(t *testing.T) {
			made, err := renderChart(t, k.values)
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(made)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range k.want {
				if !strings.Contains(string(b), part) {
					t.Errorf("%s is not in %s", part, b)
				}
			}
			if law == "ExistingOne" && strings.Contains(string(b), `"kind":"Namespace"`) {
				t.Error("it makes a namespace")
			}
		})
	}
	for law, values := range map[string]string{
		"NoServer": "replicas: 0", "TextAsNumber": "replicas: two", "UnknownValue": "replica: 2", "UnknownOfGroup": "sandboxes: {runtime: gvisor}", "BadName": "sandboxes: {namespace: 'a: b'}",
		"BadSize": "volume: {size: ten}", "BadSpread": "spread: Never", "BadService": "service: {type: External}", "NoTag": "image: {tag: ''}",
	} {
		if _, err := renderChart(t, values); err == nil {
			t.Errorf("%s: %s is accepted", law, values)
		}
	}
}

// TestPodsOfServersAreRestricted checks the server's pod against what Pod Security 'restricted' demands,
// with all values that change it.
func TestPodsOfServersAreRestricted(t *testing.T) {
	made, err := renderChart(t, "replicas: 2", "shared: {enabled: true}", "tls: {enabled: true}", "kubeconfig: {secret: c}")
	if err != nil {
		t.Fatal(err)
	}
	pods := 0
	for _, object := range made {
		if object["kind"] != "Deployment" {
			continue
		}
		pods++
		b, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{`"runAsNonRoot":true`, `"seccompProfile":{"type":"RuntimeDefault"}`, `"allowPrivilegeEscalation":false`, `"capabilities":{"drop":["ALL"]}`, `"readOnlyRootFilesystem":true`} {
			if !strings.Contains(string(b), part) {
				t.Errorf("the pod lacks %s", part)
			}
		}
		for _, part := range []string{"hostPath", "hostNetwork", "hostPID", "hostIPC", "hostPort", "privileged"} {
			if strings.Contains(string(b), `"`+part+`"`) {
				t.Errorf("the pod has %s", part)
			}
		}
	}
	if pods != 1 {
		t.Errorf("%d Deployments", pods)
	}
}

// TestRulesOfComponentAreTheAlerts compares the rules in the component with those for Prometheus itself.
func TestRulesOfComponentAreTheAlerts(t *testing.T) {
	var rule struct{ Spec map[string]any }
	var alerts map[string]any
	for name, into := range map[string]any{"kubernetes/components/monitor/rules.yaml": &rule, "monitoring/alerts.yaml": &alerts} {
		b, err := os.ReadFile(filepath.Join("../../deploy", name))
		if err == nil {
			err = yaml.Unmarshal(b, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(alerts, rule.Spec); diff != "" {
		t.Errorf("alerts.yaml -, rules.yaml +:\n%s", diff)
	}
}

package api

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"
)

// exportedLabels returns the labels of each metric that a server exports, those without a value yet included.
func exportedLabels(t *testing.T, s *Server) map[string][]string {
	t.Helper()
	ch := make(chan *prometheus.Desc, 1000)
	s.metrics.registry.Describe(ch)
	close(ch)
	form := regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)
	all := make(map[string][]string)
	for d := range ch {
		m := form.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("a description of another form: %s", d)
		}
		var labels []string
		for l := range strings.SplitSeq(m[2], ",") {
			if l != "" {
				labels = append(labels, l)
			}
		}
		all[m[1]] = labels
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			all[m[1]+suffix] = append(slices.Clip(labels), "le")
		}
	}
	return all
}

// scraped are the metrics that Prometheus itself adds, and the labels that it adds to all.
var (
	scraped       = []string{"up"}
	scrapedLabels = []string{"job", "instance"}
)

var (
	selectorForm = regexp.MustCompile(`([a-z_]+)(\{[^}]*\})?`)
	matcherForm  = regexp.MustCompile(`([a-z_]+)(=|!=|=~|!~)"`)
	groupingForm = regexp.MustCompile(`\bby \(([^)]*)\)`)
	stringForm   = regexp.MustCompile(`"[^"]*"`)
)

// checkExpression reports metrics and labels of an expression that no server exports. It returns the metrics.
func checkExpression(t *testing.T, where, expr string, exported map[string][]string) (used []string) {
	t.Helper()
	var labels []string
	for _, m := range selectorForm.FindAllStringSubmatch(expr, -1) {
		name := m[1]
		if !strings.HasPrefix(name, "atoll_") && !strings.HasPrefix(name, "process_") && !slices.Contains(scraped, name) {
			continue
		}
		known, ok := exported[name]
		if !ok && !slices.Contains(scraped, name) {
			t.Errorf("%s: no server exports the metric %s", where, name)
		}
		used, labels = append(used, name), append(labels, known...)
		for _, l := range matcherForm.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(known, l[1]) && !slices.Contains(scrapedLabels, l[1]) {
				t.Errorf("%s: %s has no label %s", where, name, l[1])
			}
		}
	}
	for _, g := range groupingForm.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(g[1], ",") {
			if l = strings.TrimSpace(l); !slices.Contains(labels, l) && !slices.Contains(scrapedLabels, l) {
				t.Errorf("%s: none of the metrics has the label %s", where, l)
			}
		}
	}
	if len(used) == 0 {
		t.Errorf("%s: no metric in %q", where, expr)
	}
	if bare := stringForm.ReplaceAllString(expr, ""); strings.Count(bare, "(") != strings.Count(bare, ")") || strings.Count(bare, "{") != strings.Count(bare, "}") {
		t.Errorf("%s: brackets of %q", where, expr)
	}
	return used
}

// TestMonitoringNamesExportedMetrics checks the alert rules and the dashboard: every metric and label in
// them is exported, and every metric of atoll is on the dashboard and in the document.
func TestMonitoringNamesExportedMetrics(t *testing.T) {
	exported := exportedLabels(t, newSite(t, Options{}).server)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	unmarshalFile(t, "../../deploy/monitoring/alerts.yaml", &rules)
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			checkExpression(t, r.Alert, r.Expr, exported)
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s has no severity, summary or description", r.Alert)
			}
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	unmarshalFile(t, "../../deploy/monitoring/dashboard.json", &dashboard)
	shown := make(map[string]bool)
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			for _, name := range checkExpression(t, p.Title, target.Expr, exported) {
				shown[name] = true
			}
		}
	}
	if len(rules.Groups) != 1 || len(rules.Groups[0].Rules) < 8 || len(dashboard.Panels) < 12 {
		t.Errorf("%d groups of rules, %d panels", len(rules.Groups), len(dashboard.Panels))
	}
	document, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range exported {
		base, suffixed := name, false
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if b, ok := strings.CutSuffix(name, suffix); ok {
				base, suffixed = b, true
			}
		}
		if suffixed || !strings.HasPrefix(name, "atoll_") {
			continue
		}
		if !shown[name] && !shown[name+"_bucket"] {
			t.Errorf("%s is on no panel of the dashboard", name)
		}
		if !strings.Contains(string(document), "`"+base+"`") {
			t.Errorf("docs/monitoring.md lacks `%s`", base)
		}
	}
}

func unmarshalFile(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		err = yaml.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// placements are the words for the ways in which the guest agent gets into a pod.
var placements = []string{"auto", "image", "volume", "init", "copy", "none"}

// PodTarget is the place of an owner app's pods.
type PodTarget struct {
	Context, Namespace string
	Quota              map[string]string
}

func parsePlacement(text string) (string, error) { return ParseOneOf(text, placements...) }

// parseNamespace reads the name of a namespace.
func parseNamespace(text string) (string, error) {
	if len(validation.IsDNS1123Label(text)) > 0 {
		return "", errors.New(`must be small letters, digits and "-", 63 at most, with no "-" first or last`)
	}
	return text, nil
}

// allOf is several mistakes of one value as one.
func allOf(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}

// parseInside reads an absolute path that means a place in an image.
func parseInside(text string) (string, error) {
	if !strings.HasPrefix(text, "/") || strings.HasSuffix(text, "/") {
		return "", errors.New("must be absolute, and name a file")
	}
	return text, nil
}

// asJSON is a part of a configuration file as one line.
func asJSON(n *yaml.Node) (string, error) {
	var v map[string]any
	if err := n.Decode(&v); err != nil {
		return "", err
	}
	b, err := json.Marshal(v)
	return string(b), err
}

// parseTargets reads {APP: {context: NAME, namespace: NAME, quota: {…}}}.
func parseTargets(text string) (map[string]PodTarget, error) {
	var apps map[string]map[string]any
	if err := yaml.Load([]byte(text), &apps); err != nil {
		return nil, errors.New("must be {APP: {context: NAME, namespace: NAME, quota: {pods: 20}}}")
	}
	targets := make(map[string]PodTarget)
	var errs []error
	for app, fields := range output.SortedPairs(apps) {
		t, err := parseTarget(fields)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", app, err))
		}
		targets[app] = t
	}
	return targets, allOf(errs)
}

func parseTarget(fields map[string]any) (PodTarget, error) {
	var t PodTarget
	var errs []error
	for name, v := range output.SortedPairs(fields) {
		text, isText := v.(string)
		var err error
		switch {
		case name == "quota":
			t.Quota, err = amountsOf(v)
		case !slices.Contains([]string{"context", "namespace"}, name):
			err = fmt.Errorf("unknown key%s", suggest.Hint(name, []string{"context", "namespace", "quota"}))
		case !isText || text == "":
			err = errors.New("must be a name")
		case name == "context":
			t.Context = text
		default:
			t.Namespace, err = parseNamespace(text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return t, allOf(errs)
}

// parseQuota reads {RESOURCE: AMOUNT, …}, as in a ResourceQuota.
func parseQuota(text string) (map[string]string, error) {
	var v any
	if err := yaml.Load([]byte(text), &v); err != nil {
		v = nil
	}
	return amountsOf(v)
}

func amountsOf(v any) (map[string]string, error) {
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("must be {pods: 20, limits.cpu: 16}")
	}
	amounts := make(map[string]string)
	var errs []error
	for name, amount := range output.SortedPairs(fields) {
		text := fmt.Sprint(amount)
		if _, err := resource.ParseQuantity(text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %q is no amount, like 20, 500m or 16Gi", name, text))
		}
		amounts[name] = text
	}
	return amounts, allOf(errs)
}

// Command helm prints what a Helm chart makes, as YAML documents: helm DIRECTORY [VALUES.yaml].
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "usage: helm DIRECTORY [VALUES.yaml]")
		os.Exit(2)
	}
	if err := renderChart(os.Stdout, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "helm:", err)
		os.Exit(1)
	}
}

// renderChart writes the objects of a release of a chart, with the values of at most one file.
func renderChart(w io.Writer, dir string, values []string) error {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return err
	}
	given := map[string]any{}
	for _, name := range values {
		if given, err = common.ReadValuesFile(name); err != nil {
			return err
		}
	}
	release := common.ReleaseOptions{Name: "atoll", Namespace: "atoll-system", IsInstall: true, Revision: 1}
	all, err := util.ToRenderValues(c, given, release, common.DefaultCapabilities)
	if err != nil {
		return err
	}
	files, err := engine.Engine{Strict: true}.Render(c, all)
	if err != nil {
		return err
	}
	var names []string
	for name := range files {
		if strings.HasSuffix(name, ".yaml") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return errors.New("the chart has no templates")
	}
	for _, name := range names {
		if _, err := fmt.Fprintf(w, "---\n%s\n", files[name]); err != nil {
			return err
		}
	}
	return nil
}

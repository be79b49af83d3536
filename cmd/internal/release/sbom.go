package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/helper"
)

// component is a module in a bill of materials of CycloneDX.
type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
	Ref     string `json:"bom-ref"`
}

// writeSBOM publishes the modules that are in the programs, as the compiler recorded them.
func (r *release) writeSBOM(context.Context) error {
	parts := map[string]component{}
	for _, t := range r.targets {
		names := []string{clientProgram(t)}
		if t.hasHelpers() {
			names = append([]string{"atoll"}, helper.Names...)
		}
		for _, name := range names {
			info, err := buildinfo.ReadFile(filepath.Join(r.programDir(t), name))
			if err != nil {
				return err
			}
			for _, m := range info.Deps {
				addComponent(parts, m)
			}
			addComponent(parts, &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")})
		}
	}
	list := make([]component, 0, len(parts))
	for _, key := range slices.Sorted(maps.Keys(parts)) {
		list = append(list, parts[key])
	}
	b, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata": map[string]any{
			"timestamp": r.time.Format("2006-01-02T15:04:05Z"),
			"component": component{Type: "application", Name: "github.com/atoll-sandbox/atoll", Version: r.version, PURL: "pkg:golang/github.com/atoll-sandbox/atoll@" + r.version, Ref: "atoll"},
		},
		"components": list,
	}, "", "  ")
	if err != nil {
		return err
	}
	return r.writeArtifact("atoll_"+strings.TrimPrefix(r.version, "v")+"_sbom.cdx.json", append(b, '\n'), 0o644)
}

// clientProgram returns the name of the only program of a target that does not serve.
func clientProgram(t target) string { return "atoll-full" + programSuffix(t) }

func addComponent(to map[string]component, m *debug.Module) {
	if m.Replace != nil {
		m = m.Replace
	}
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	to[purl] = component{Type: "library", Name: m.Path, Version: m.Version, PURL: purl, Ref: purl}
}

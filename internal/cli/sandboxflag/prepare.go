package sandboxflag

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
)

// step is an atoll.Step as people write it.
type step struct {
	Name  string   `yaml:"name"`
	Exec  []string `yaml:"exec"`
	Shell string   `yaml:"shell"`
	File  *struct {
		Path    string `yaml:"path"`
		Content string `yaml:"content"`
		Mode    string `yaml:"mode"` // like 0755
	} `yaml:"file"`
	Copy *struct {
		Workspace string `yaml:"workspace"`
		From      string `yaml:"from"`
		To        string `yaml:"to"`
	} `yaml:"copy"`
	Once        bool   `yaml:"once"`
	IgnoreError bool   `yaml:"ignore_error"`
	Timeout     string `yaml:"timeout"` // like 30s
}

// readSteps reads a YAML list of steps.
func readSteps(name string) ([]atoll.Step, error) {
	b, err := config.ReadSmallFile(name)
	if err != nil {
		return nil, fmt.Errorf("--prepare: %w", err)
	}
	var list []step
	if err := yaml.Load(b, &list, yaml.WithKnownFields()); err != nil && !errors.Is(err, io.EOF) {
		return nil, stepErrors(name, err)
	}
	var steps []atoll.Step
	var errs []error
	for i, s := range list {
		t, err := s.parseStep()
		if err != nil {
			errs = append(errs, config.Problem{Location: fmt.Sprintf("--prepare %s: step %d", name, i+1), Message: config.TextWithoutKind(err)})
		}
		steps = append(steps, t)
	}
	return steps, errors.Join(errs...)
}

// stepErrors tells each problem that the decoder found, with its place.
func stepErrors(name string, err error) error {
	var all *yaml.LoadErrors
	var one *yaml.LoadError
	var errs []error
	switch {
	case errors.As(err, &all):
		for _, e := range all.Errors {
			errs = append(errs, config.Problem{Location: fmt.Sprintf("--prepare %s:%d", name, e.Mark.Line), Message: e.Message})
		}
	case errors.As(err, &one):
		errs = append(errs, config.Problem{Location: fmt.Sprintf("--prepare %s:%d", name, one.Mark.Line), Message: one.Message})
	default:
		errs = append(errs, config.Problem{Location: "--prepare " + name, Message: err.Error()})
	}
	return errors.Join(errs...)
}

func (s step) parseStep() (atoll.Step, error) {
	t := atoll.Step{Name: s.Name, Exec: s.Exec, Shell: s.Shell, Once: s.Once, IgnoreError: s.IgnoreError}
	var err error
	if s.Timeout != "" {
		if t.Timeout, err = config.ParseDuration(s.Timeout); err != nil {
			return t, fmt.Errorf("timeout %q: %w", s.Timeout, err)
		}
	}
	if s.Copy != nil {
		t.Copy = &atoll.StepCopy{Workspace: s.Copy.Workspace, From: s.Copy.From, To: s.Copy.To}
	}
	if s.File != nil {
		t.File = &atoll.StepFile{Path: s.File.Path, Content: s.File.Content}
		if s.File.Mode != "" {
			mode, err := strconv.ParseUint(s.File.Mode, 8, 32)
			if err != nil {
				return t, fmt.Errorf("file.mode %q: must be octal, like 0755", s.File.Mode)
			}
			t.File.Mode = uint32(mode)
		}
	}
	return t, nil
}

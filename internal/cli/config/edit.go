package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/lockedfile"
	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// EditFile changes the user's file in one step. Comments stay where they
// are; a file that is wrong is left alone.
func EditFile(file string, edit func(top *yaml.Node) error) (err error) {
	if file == "" {
		return fmt.Errorf("%w: there is no home directory to keep atoll.yaml in: set ATOLL_CONFIG to a file", atoll.ErrInvalid)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // a link that somebody has made stays one
	}
	unlock, err := lockedfile.MutexAt(filepath.Join(filepath.Dir(file), ".atoll.lock")).Lock()
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	defer unlock()
	if _, err := ReadFile(file, false); err != nil {
		return err
	}
	b, err := ReadSmallFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("configuration: %w", err)
	}
	doc := &yaml.Node{Kind: yaml.DocumentNode}
	if top, err := ParseYAML(file, b); err != nil {
		return err
	} else if top != nil {
		if err := yaml.Load(b, doc); err != nil {
			return err
		}
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		doc.Content = []*yaml.Node{{Kind: yaml.MappingNode, HeadComment: commentOf(b)}}
	}
	if err := edit(doc.Content[0]); err != nil {
		return err
	}
	out, err := yaml.Dump(doc, yaml.WithIndent(2))
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if err := atomicfile.Replace(file, out, 0o600); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return nil
}

// commentOf keeps what stands in a file without any keys.
func commentOf(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return string(b[:len(b)-1])
}

func NewScalar(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// FindNode returns the value of a key of a mapping; nil for none.
func FindNode(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// SetNode sets a key of a mapping.
func SetNode(n *yaml.Node, name string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			value.LineComment = n.Content[i+1].LineComment
			n.Content[i+1] = value
			return
		}
	}
	n.Content = append(n.Content, NewScalar(name), value)
}

// RemoveNode removes a key of a mapping.
func RemoveNode(n *yaml.Node, name string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content = append(n.Content[:i:i], n.Content[i+2:]...)
			return
		}
	}
}

// PutContext adds or replaces a context.
func PutContext(top *yaml.Node, name string, e Endpoint) {
	all := FindNode(top, "contexts")
	if all == nil || all.Kind != yaml.MappingNode {
		all = &yaml.Node{Kind: yaml.MappingNode}
		SetNode(top, "contexts", all)
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range [][2]string{{"host", e.Host}, {"token", e.Token}, {"token_file", e.TokenFile}, {"ca", e.CA}, {"cert", e.Cert}, {"key", e.Key}} {
		if f[1] != "" {
			SetNode(n, f[0], NewScalar(f[1]))
		}
	}
	SetNode(all, name, n)
}

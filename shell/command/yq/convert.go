package yq

import (
	"math"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll/internal/unix/jq"
)

// maxDepth is how deep values may be nested.
const maxDepth = 1000

// valueCost is what a node costs as a value, beside its text.
const valueCost = 96

// newValue returns the value of a node; aliases and merge keys are resolved. ok is false if it is nested too deep, as an
// alias in its own anchor is.
func (j *job) newValue(n *yaml.Node, depth int) (v jq.Value, ok bool) {
	if depth > maxDepth {
		return nil, false
	}
	j.p.Tick(1)
	j.p.Alloc(valueCost + int64(len(n.Value)))
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) == 0 {
			return nil, true
		}
		return j.newValue(n.Content[0], depth)
	case yaml.AliasNode:
		return j.newValue(n.Alias, depth+1)
	case yaml.SequenceNode:
		a := jq.NewArray()
		for _, c := range n.Content {
			item, ok := j.newValue(c, depth+1)
			if !ok {
				return nil, false
			}
			a.Items = append(a.Items, item)
		}
		return a, true
	case yaml.MappingNode:
		o := jq.NewObject()
		return o, j.fillObject(o, n, depth)
	}
	return j.newScalar(n), true
}

// fillObject sets the keys of a mapping; those of merge keys only if it has not its own.
func (j *job) fillObject(o *jq.Object, n *yaml.Node, depth int) bool {
	own := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		own[n.Content[i].Value] = !isMerge(n.Content[i])
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if isMerge(key) {
			if !j.mergeInto(o, value, own, depth+1) {
				return false
			}
			continue
		}
		v, ok := j.newValue(value, depth+1)
		if !ok {
			return false
		}
		o.Set(key.Value, v)
	}
	return true
}

func isMerge(key *yaml.Node) bool {
	return key.Value == "<<" && (key.Tag == "!!merge" || key.Style == 0)
}

func (j *job) mergeInto(o *jq.Object, from *yaml.Node, own map[string]bool, depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch from.Kind {
	case yaml.AliasNode:
		return j.mergeInto(o, from.Alias, own, depth+1)
	case yaml.SequenceNode:
		for _, c := range from.Content {
			if !j.mergeInto(o, c, own, depth+1) {
				return false
			}
		}
	case yaml.MappingNode:
		v, ok := j.newValue(from, depth+1)
		if !ok {
			return false
		}
		for _, e := range v.(*jq.Object).Entries() {
			if _, has := o.Get(e.Key); !has && !own[e.Key] {
				o.Set(e.Key, e.Value)
			}
		}
	}
	return true
}

// newScalar returns the value of a scalar.
func (j *job) newScalar(n *yaml.Node) jq.Value {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int":
		text := strings.ReplaceAll(n.Value, "_", "")
		if v, err := jq.DecodeText(text, j.p); err == nil {
			return v
		}
		if i, err := strconv.ParseInt(text, 0, 64); err == nil {
			return float64(i)
		}
	case "!!float":
		if v, err := jq.DecodeText(n.Value, j.p); err == nil {
			return v
		}
		switch strings.TrimPrefix(strings.ToLower(n.Value), "+") {
		case ".inf":
			return math.Inf(1)
		case "-.inf":
			return math.Inf(-1)
		case ".nan":
			return math.NaN()
		}
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return f
		}
	}
	return n.Value
}

// newNode returns a node for a value; nil: it is nested too deep.
func (j *job) newNode(v jq.Value, depth int) *yaml.Node {
	if depth > maxDepth {
		return nil
	}
	j.p.Tick(1)
	j.p.Alloc(nodeCost / 2)
	switch v := v.(type) {
	case *jq.Array:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if len(v.Items) == 0 {
			n.Style = yaml.FlowStyle
		}
		for _, item := range v.Items {
			c := j.newNode(item, depth+1)
			if c == nil {
				return nil
			}
			n.Content = append(n.Content, c)
		}
		return n
	case *jq.Object:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		if v.Len() == 0 {
			n.Style = yaml.FlowStyle
		}
		for _, e := range v.Entries() {
			c := j.newNode(e.Value, depth+1)
			if c == nil {
				return nil
			}
			n.Content = append(n.Content, scalarNode(e.Key), c)
		}
		return n
	}
	return scalarNode(v)
}

// scalarNode returns a node for a value that is no container.
func scalarNode(v jq.Value) *yaml.Node {
	switch v := v.(type) {
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}
	case string:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}
		if strings.Contains(v, "\n") {
			n.Style = yaml.LiteralStyle
		}
		return n
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: numberText(v), Tag: numberTag(numberText(v))}
}

func numberText(v jq.Value) string {
	switch v := v.(type) {
	case *jq.Number:
		return v.String()
	case float64:
		switch {
		case math.IsInf(v, 1):
			return ".inf"
		case math.IsInf(v, -1):
			return "-.inf"
		case math.IsNaN(v):
			return ".nan"
		}
		return jq.FormatNumber(v)
	}
	return ""
}

func numberTag(text string) string {
	if strings.ContainsAny(text, ".eEn") {
		return "!!float"
	}
	return "!!int"
}

// reconcile returns a node for a value that a document became: where the value is the same, the node stays, with its
// comments and styles. nil: it is nested too deep.
func (j *job) reconcile(n *yaml.Node, v jq.Value, depth int) *yaml.Node {
	if depth > maxDepth {
		return nil
	}
	j.p.Tick(1)
	switch v := v.(type) {
	case *jq.Object:
		if n.Kind == yaml.AliasNode && j.isSame(n, v) {
			return n
		}
		if n.Kind == yaml.MappingNode {
			return j.reconcileObject(n, v, depth)
		}
	case *jq.Array:
		if n.Kind == yaml.AliasNode && j.isSame(n, v) {
			return n
		}
		if n.Kind == yaml.SequenceNode {
			return j.reconcileArray(n, v, depth)
		}
	default:
		if n.Kind == yaml.AliasNode && j.isSame(n, v) {
			return n
		}
		if n.Kind == yaml.ScalarNode {
			if j.isSame(n, v) {
				return n
			}
			c := scalarNode(v)
			c.HeadComment, c.LineComment, c.FootComment, c.Anchor = n.HeadComment, n.LineComment, n.FootComment, n.Anchor
			if _, text := v.(string); text && n.Tag == "!!str" && n.Style&yaml.TaggedStyle == 0 && c.Style == 0 && n.Style != yaml.LiteralStyle && n.Style != yaml.FoldedStyle {
				c.Style = n.Style
			}
			return c
		}
	}
	c := j.newNode(v, depth)
	if c != nil {
		c.HeadComment, c.LineComment, c.FootComment = n.HeadComment, n.LineComment, n.FootComment
	}
	return c
}

// isSame reports whether a node has a value.
func (j *job) isSame(n *yaml.Node, v jq.Value) bool {
	was, ok := j.newValue(n, 0)
	return ok && equal(was, v)
}

// equal compares values.
func equal(a, b jq.Value) bool {
	switch a := a.(type) {
	case *jq.Object:
		b, ok := b.(*jq.Object)
		if !ok || a.Len() != b.Len() {
			return false
		}
		for _, e := range a.Entries() {
			if other, ok := b.Get(e.Key); !ok || !equal(e.Value, other) {
				return false
			}
		}
		return true
	case *jq.Array:
		b, ok := b.(*jq.Array)
		if !ok || len(a.Items) != len(b.Items) {
			return false
		}
		for i := range a.Items {
			if !equal(a.Items[i], b.Items[i]) {
				return false
			}
		}
		return true
	case nil, bool, string:
		return a == b
	}
	switch b.(type) {
	case float64, *jq.Number:
		return numberText(a) == numberText(b)
	}
	return false
}

func (j *job) reconcileObject(n *yaml.Node, v *jq.Object, depth int) *yaml.Node {
	c := *n
	c.Content = nil
	merged := jq.NewObject()
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if isMerge(key) {
			if !j.mergeInto(merged, value, nil, depth+1) {
				return nil
			}
			c.Content = append(c.Content, key, value)
		}
	}
	own := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		own[n.Content[i].Value] = i
	}
	if len(merged.Entries()) > 0 || len(c.Content) > 0 {
		return j.reconcileMerged(n, v, merged, own, depth)
	}
	for _, e := range v.Entries() {
		i, has := own[e.Key]
		var child *yaml.Node
		if has {
			child = j.reconcile(n.Content[i+1], e.Value, depth+1)
		} else {
			child = j.newNode(e.Value, depth+1)
		}
		if child == nil {
			return nil
		}
		key := scalarNode(e.Key)
		if has {
			key = n.Content[i]
		}
		c.Content = append(c.Content, key, child)
	}
	if len(c.Content) > 0 && len(n.Content) == 0 {
		c.Style = 0
	}
	return &c
}

// reconcileMerged keeps the merge keys of a mapping, and the keys in its order.
func (j *job) reconcileMerged(n *yaml.Node, v, merged *jq.Object, own map[string]int, depth int) *yaml.Node {
	c := *n
	c.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		value, has := v.Get(key.Value)
		switch {
		case isMerge(key):
			c.Content = append(c.Content, key, n.Content[i+1])
		case has:
			child := j.reconcile(n.Content[i+1], value, depth+1)
			if child == nil {
				return nil
			}
			c.Content = append(c.Content, key, child)
		}
	}
	for _, e := range v.Entries() {
		if _, has := own[e.Key]; has {
			continue
		}
		if was, has := merged.Get(e.Key); has && equal(was, e.Value) {
			continue
		}
		child := j.newNode(e.Value, depth+1)
		if child == nil {
			return nil
		}
		c.Content = append(c.Content, scalarNode(e.Key), child)
	}
	return &c
}

func (j *job) reconcileArray(n *yaml.Node, v *jq.Array, depth int) *yaml.Node {
	c := *n
	c.Content = nil
	shift := 0 // an item that is removed moves the others
	for i, item := range v.Items {
		for len(v.Items) < len(n.Content) && i+shift < len(n.Content) && shift < len(n.Content)-len(v.Items) && !j.isSame(n.Content[i+shift], item) {
			shift++
		}
		var child *yaml.Node
		if i+shift < len(n.Content) {
			child = j.reconcile(n.Content[i+shift], item, depth+1)
		} else {
			child = j.newNode(item, depth+1)
		}
		if child == nil {
			return nil
		}
		c.Content = append(c.Content, child)
	}
	if len(c.Content) > 0 && len(n.Content) == 0 {
		c.Style = 0
	}
	return &c
}

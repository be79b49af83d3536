package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/atoll-sandbox/atoll"
)

// Template returns, as YAML, a SandboxTemplate of kubernetes-sigs/agent-sandbox whose pods are like
// those that Create makes from the same Spec, and a SandboxWarmPool of the same name that keeps some
// of them ready. A Spec with that name in Pod.Template claims one. The pods trust only this driver's
// key.
func (d *Driver) Template(ctx context.Context, name string, spec atoll.Spec, ready int) ([]byte, error) {
	text, err := d.writeTemplate(ctx, name, spec, ready)
	if err != nil {
		return nil, &atoll.Error{Op: "template", ID: name, Err: err}
	}
	return text, nil
}

func (d *Driver) writeTemplate(ctx context.Context, name string, spec atoll.Spec, ready int) ([]byte, error) {
	if err := atoll.CheckName(name); err != nil {
		return nil, err
	}
	if len(spec.Env) > 0 {
		return nil, fmt.Errorf("%w: env: it comes with the sandbox", atoll.ErrInvalid)
	}
	t, err := d.targetOf(spec.Owner)
	if err != nil {
		return nil, err
	}
	how, err := d.choosePlacement(ctx, t)
	if err != nil {
		return nil, err
	}
	spec.ID, spec.Owner = "", atoll.Owner{}
	p := &pod{d: d, t: t, id: name, spec: spec, how: how}
	p.spec.Dir = orDefault(spec.Dir, atoll.DefaultDir)
	made, err := p.newPodObject("", nil)
	if err != nil {
		return nil, err
	}
	if p.hasVolume() {
		return nil, fmt.Errorf("%w: storage class %s: give the template volumeClaimTemplates of its own", atoll.ErrUnsupported, p.storageClass())
	}
	made.Spec.Hostname = ""
	usePodName(&made.Spec.Containers[0])
	template := &sandboxTemplate{
		TypeMeta:   metav1.TypeMeta{APIVersion: claimGroup + "/" + agentVersion, Kind: "SandboxTemplate"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: t.namespace, Labels: map[string]string{labelManaged: "atoll"}},
	}
	template.Spec.Network = "Unmanaged" // the namespace's own policies apply
	template.Spec.Pod.Spec = made.Spec
	template.Spec.Pod.Meta = podMeta{
		Labels:      map[string]string{labelID: name, labelNetwork: string(networkMode(&p.spec))}, // policies select by it
		Annotations: map[string]string{notePlacement: string(how), notePort: strconv.Itoa(guestPort)},
	}
	pool := &warmPool{TypeMeta: template.TypeMeta, ObjectMeta: *template.ObjectMeta.DeepCopy()}
	pool.Kind = "SandboxWarmPool"
	n := int32(ready) //nolint:gosec // the API checks it
	pool.Spec.Replicas, pool.Spec.Template.Name = &n, name
	return encodeYAML(template, pool)
}

// usePodName makes a guest use the pod's name as its id, since its sandbox is not known yet.
func usePodName(c *corev1.Container) {
	for i := range c.Env {
		if c.Env[i].Name == "ATOLL_ID" {
			c.Env[i].Value = ""
			c.Env[i].ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
		}
	}
}

// encodeYAML returns objects as YAML, one document each, without null fields.
func encodeYAML(objects ...any) ([]byte, error) {
	var all [][]byte
	for _, o := range objects {
		b, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		var fields map[string]any
		if err := json.Unmarshal(b, &fields); err != nil {
			return nil, err
		}
		dropNulls(fields)
		if b, err = yaml.Marshal(fields); err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return bytes.Join(all, []byte("---\n")), nil
}

// dropNulls removes null fields.
func dropNulls(fields map[string]any) {
	for _, k := range slices.Collect(maps.Keys(fields)) {
		switch v := fields[k].(type) {
		case nil:
			delete(fields, k)
		case map[string]any:
			dropNulls(v)
		}
	}
}

package kubernetes

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-sandbox/atoll"
)

// The labels of all objects of a sandbox, which lists select by.
const (
	labelManaged = "app.kubernetes.io/managed-by" // "atoll"
	labelID      = "atoll.dev/id"
	labelHome    = "atoll.dev/home"    // the fleet
	labelOwner   = "atoll.dev/owner"   // hash of the owner
	labelPool    = "atoll.dev/pool"    // "ready": it has no owner yet
	labelNetwork = "atoll.dev/network" // the mode, by which a NetworkPolicy selects
)

// The annotations. With them a sandbox can be found again without any other state.
const (
	noteSpec      = "atoll.dev/spec" // as JSON, without secrets
	noteName      = "atoll.dev/name"
	noteLabels    = "atoll.dev/labels" // of the user, as JSON: their keys need not be valid for the cluster
	noteCreated   = "atoll.dev/created"
	notePlacement = "atoll.dev/placement"
	notePort      = "atoll.dev/port" // of the guest on the pod's loopback
	noteIsolation = "atoll.dev/isolation"
	noteDirs      = "atoll.dev/dirs"    // of Spec, as JSON
	noteSecret    = "atoll.dev/secret"  // "true": the environment is in a Secret
	noteClaim     = "atoll.dev/claim"   // id of the Claim that assigned it to its owner
	noteAttempt   = "atoll.dev/attempt" // id of the Create or Start that created it
)

// objectMeta returns the metadata that all objects of a sandbox share.
func (p *pod) objectMeta(attempt string) (metav1.ObjectMeta, error) {
	notes, err := p.objectAnnotations()
	if err != nil {
		return metav1.ObjectMeta{}, err
	}
	notes[noteAttempt] = attempt
	return metav1.ObjectMeta{Name: podName(p.id), Namespace: p.t.namespace, Labels: p.objectLabels(), Annotations: notes}, nil
}

// objectLabels returns the labels of a sandbox's objects.
func (p *pod) objectLabels() map[string]string {
	l := map[string]string{
		labelManaged: "atoll", labelID: p.id, labelHome: p.t.home, labelNetwork: string(networkMode(&p.spec)),
	}
	if p.owner != "" {
		l[labelOwner] = p.owner
	} else if p.pool {
		l[labelPool] = "ready"
	}
	return l
}

// objectAnnotations returns the annotations of a sandbox's objects.
func (p *pod) objectAnnotations() (map[string]string, error) {
	kept := p.spec
	kept.Env, kept.Name, kept.Labels = nil, "", nil
	kept.Network.Headers = nil
	spec, err := json.Marshal(&kept)
	if err != nil {
		return nil, err
	}
	labels, err := json.Marshal(p.spec.Labels)
	if err != nil {
		return nil, err
	}
	dirs, err := json.Marshal(p.spec.Dirs)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		noteSpec: string(spec), noteName: p.spec.Name, noteDirs: string(dirs), noteLabels: string(labels), noteCreated: p.created.UTC().Format(time.RFC3339Nano),
		notePlacement: string(p.how), notePort: strconv.Itoa(p.port), noteIsolation: p.isolation, noteSecret: strconv.FormatBool(p.secret),
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
	}, nil
}

// parsePort returns the port of the guest in the annotations of a pod, or of a template.
func parsePort(notes map[string]string) int {
	port, err := strconv.ParseUint(notes[notePort], 10, 16)
	if err != nil || port == 0 {
		return oldGuestPort
	}
	return int(port)
}

// readPod returns the sandbox in the metadata of its pod or its volume.
func readPod(d *Driver, t *target, meta *metav1.ObjectMeta) (*pod, error) {
	p := &pod{d: d, t: t, id: meta.Labels[labelID], owner: meta.Labels[labelOwner], pool: meta.Labels[labelPool] != ""}
	if err := atoll.CheckID(p.id); err != nil || meta.Labels[labelHome] != t.home {
		return nil, fmt.Errorf("%w: %s of namespace %s belongs to another home", atoll.ErrNotFound, meta.Name, meta.Namespace)
	}
	notes := meta.Annotations
	if err := json.Unmarshal([]byte(notes[noteSpec]), &p.spec); err != nil {
		return nil, fmt.Errorf("%w: annotation %s of %s: %w", atoll.ErrUnavailable, noteSpec, meta.Name, err)
	}
	for note, into := range map[string]any{noteLabels: &p.spec.Labels, noteDirs: &p.spec.Dirs} {
		if text := notes[note]; text != "" {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				return nil, fmt.Errorf("%w: annotation %s of %s: %w", atoll.ErrUnavailable, note, meta.Name, err)
			}
		}
	}
	p.spec.ID, p.spec.Name = p.id, notes[noteName]
	p.how, p.isolation, p.secret = Placement(notes[notePlacement]), orDefault(notes[noteIsolation], isolation), notes[noteSecret] == "true"
	p.port = parsePort(notes)
	var err error
	if p.created, err = time.Parse(time.RFC3339Nano, notes[noteCreated]); err != nil {
		p.created = meta.CreationTimestamp.Time
	}
	return p, nil
}

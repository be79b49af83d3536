package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-sandbox/atoll"
)

// namesKey is the key of a sandbox's Secret with the names of its variables, as JSON. The keys of their
// values are their numbers.
const namesKey = "names"

// secretOf returns the Secret of an environment, and the names of its variables; nil if the sandbox has
// no environment.
func (p *pod) secretOf(attempt string) (*corev1.Secret, []string, error) {
	if !p.secret {
		return nil, nil, nil
	}
	meta, err := p.objectMeta(attempt)
	if err != nil {
		return nil, nil, err
	}
	meta.Annotations = map[string]string{noteAttempt: attempt}
	data := make(map[string][]byte)
	var names []string
	at := make(map[string]int)
	for _, e := range p.env {
		k, v, _ := strings.Cut(e, "=")
		i, twice := at[k]
		if !twice {
			i = len(names)
			at[k], names = i, append(names, k)
		}
		data[strconv.Itoa(i)] = []byte(v)
	}
	if data[namesKey], err = json.Marshal(names); err != nil {
		return nil, nil, err
	}
	return &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: data}, names, nil
}

// envNames returns the names of the variables of a sandbox that is started again.
func (p *pod) envNames(ctx context.Context) (names []string, err error) {
	if !p.secret {
		return nil, nil
	}
	var found *corev1.Secret
	err = p.t.callAPI(ctx, func(ctx context.Context) error {
		found, err = p.t.core.Secrets(p.t.namespace).Get(ctx, podName(p.id), metav1.GetOptions{})
		return err
	})
	if err == nil {
		err = json.Unmarshal(found.Data[namesKey], &names)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the environment of the sandbox: %w", atoll.ErrUnavailable, err)
	}
	return names, nil
}

// ownedBy returns the owner of the Secret: the cluster removes the Secret with it.
func ownedBy(kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: name, UID: uid}}
}

// makeSecret creates the Secret of a sandbox with an environment. It has an owner from the beginning,
// so that no value stays in the cluster when atoll is killed.
func (p *pod) makeSecret(ctx context.Context, secret *corev1.Secret, owner []metav1.OwnerReference) error {
	if secret == nil {
		return nil
	}
	secret.OwnerReferences = owner
	if _, err := create(ctx, p.t, p.t.core.Secrets(p.t.namespace), secret); err != nil {
		return fmt.Errorf("the environment's secret: %w", p.explainRefusal(ctx, err, usage{"secrets": quantityOne()}))
	}
	return nil
}

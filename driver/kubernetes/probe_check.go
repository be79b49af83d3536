package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-sandbox/atoll"
)

var _ atoll.Checker = (*Driver)(nil)

// rule is a permission that the driver uses.
type rule struct {
	group, resource string
	verbs           []string
	what            string // what it is for
	needed          bool
	cluster         bool // it has no namespace
}

// neededRules returns the permissions that this driver uses with its settings.
func (d *Driver) neededRules() []rule {
	list := []rule{
		{"", "pods", []string{"create", "get", "list", "watch", "delete"}, "sandboxes are pods", true, false},
		{"", "pods", []string{"patch"}, "claims from the warm pool", false, false},
		{"networking.k8s.io", "networkpolicies", []string{"get", "patch", "create"}, "network policies, without which nothing is started; without this permission they have to exist already", true, false},
		{"", "pods/log", []string{"get"}, "logs of pods that did not start", false, false},
		{"", "serviceaccounts", []string{"get"}, "to wait for that of a new namespace", false, false},
		{"", "events", []string{"list"}, "why pods did not start", false, false},
		{"", "resourcequotas", []string{"list"}, "to tell quotas from other refusals", false, false},
		{"", "secrets", []string{"create", "get", "delete"}, "environments of sandboxes that have one", false, false},
		{"", "persistentvolumeclaims", []string{"create", "get", "list", "patch", "delete"}, "volumes that outlive a stop", d.keepsFiles(), false},
	}
	if d.Placement != PlaceNone {
		list = append(list, rule{"", "pods/portforward", []string{"create", "get"}, "the tunnel to the guest", true, false})
	}
	if d.Placement == PlaceNone || d.Placement == PlaceCopy || d.Placement == PlaceAuto && d.GuestImage == "" {
		list = append(list, rule{"", "pods/exec", []string{"create", "get"}, "to copy the guest into pods, and to run commands without one", true, false})
	}
	if d.NamespacePerApp || len(d.Apps) > 0 {
		list = append(list, rule{"", "namespaces", []string{"get", "patch", "create"}, "namespaces on demand", d.NamespacePerApp, true})
	}
	if d.NamespacePerApp {
		list = append(list,
			rule{"", "pods", []string{"list"}, "sandboxes of all apps", true, true},
			rule{"", "pods", []string{"watch"}, "to notice at once that a pod of an app has ended", false, true},
			rule{"", "persistentvolumeclaims", []string{"list"}, "sandboxes of all apps that are stopped", d.keepsFiles(), true})
	}
	if len(d.Quota) > 0 || len(d.Apps) > 0 {
		list = append(list, rule{"", "resourcequotas", []string{"get", "patch", "create"}, "quotas of namespaces on demand", false, d.NamespacePerApp})
	}
	return append(list,
		rule{"storage.k8s.io", "storageclasses", []string{"list"}, "to say which storage classes there are", false, true},
		rule{"node.k8s.io", "runtimeclasses", []string{"get", "list"}, "to say which runtimes there are", false, true})
}

func (d *Driver) keepsFiles() bool { return outlivesPod(d.storageOf(&atoll.Spec{})) }

// roleText returns the rule as it is written in a Role.
func (r *rule) roleText(verbs []string) string {
	kind := "Role"
	if r.cluster {
		kind = "ClusterRole"
	}
	return fmt.Sprintf("add to the %s: {apiGroups: [%q], resources: [%q], verbs: [%s]}", kind, r.group, r.resource, strings.Join(verbs, ", "))
}

// Checks checks the cluster and its permissions.
func (d *Driver) Checks(ctx context.Context) []atoll.Check {
	reach := atoll.Check{Name: "cluster", Needed: true}
	t, err := d.targetOf(atoll.Owner{})
	if err == nil {
		v, verr := t.serverVersion(ctx)
		reach.Detail, err = fmt.Sprintf("Kubernetes %s at %s", v.GitVersion, t.config.Host), verr
	}
	if err != nil {
		reach.Detail, reach.Fix = err.Error(), "name a kubeconfig and a context of it: $KUBECONFIG, kubernetes.kubeconfig and kubernetes.context in atoll.yaml"
		return []atoll.Check{reach}
	}
	reach.OK = true
	checks := []atoll.Check{reach, d.checkPlacement(ctx, t)}
	targets, err := d.allTargets()
	if err != nil {
		return append(checks, atoll.Check{Name: "apps", Needed: true, Detail: err.Error(), Fix: "correct kubernetes.apps in atoll.yaml"})
	}
	for _, t := range targets {
		for _, r := range d.neededRules() {
			if r.cluster && t != targets[0] && t.context == targets[0].context {
				continue
			}
			checks = append(checks, t.checkRule(ctx, &r))
		}
		checks = append(checks, t.checkLevel(ctx))
	}
	policies := atoll.Check{Name: "network policies", Detail: "not tried: a sandbox could not be created", Fix: "see above"}
	if !slices.ContainsFunc(checks, func(c atoll.Check) bool { return c.Needed && !c.OK }) {
		policies = t.checkPolicies(ctx)
	}
	return append(checks, t.checkClasses(ctx), policies)
}

// checkPlacement checks how the guest gets into pods.
func (d *Driver) checkPlacement(ctx context.Context, t *target) atoll.Check {
	c := atoll.Check{Name: "guest", Needed: true}
	how, err := d.choosePlacement(ctx, t)
	switch {
	case err != nil:
		c.Detail, c.Fix = err.Error(), "correct kubernetes.placement and kubernetes.guest_image in atoll.yaml"
		return c
	case how == PlaceNone:
		c.Detail = "there is none: commands and files go through the cluster's API, which is slower, and much is missing"
		c.Fix = "put atoll-guest beside atoll, or name an image that has it: kubernetes.guest_image in atoll.yaml"
		c.OK = d.Placement == PlaceNone
		c.Needed = false
		return c
	}
	c.OK, c.Detail = true, "placed by "+string(how)
	if how == PlaceCopy {
		if _, err := d.Helpers.Find("atoll-guest"); err != nil {
			c.OK, c.Detail, c.Fix = false, err.Error(), "build atoll with `make build`, or put atoll-guest beside atoll or into $ATOLL_HELPERS"
		}
	}
	return c
}

// checkRule checks whether each verb of a rule is allowed.
func (t *target) checkRule(ctx context.Context, r *rule) atoll.Check {
	c := atoll.Check{Name: fmt.Sprintf("%s in %s", r.resource, t.place), Needed: r.needed, OK: true, Detail: strings.Join(r.verbs, ", ") + ": " + r.what}
	q := authorizationv1.ResourceAttributes{Group: r.group, Resource: r.resource, Namespace: t.namespace}
	if r.cluster {
		c.Name, q.Namespace = r.resource+" of the cluster", ""
	}
	q.Resource, q.Subresource, _ = strings.Cut(r.resource, "/")
	var missing []string
	for _, verb := range r.verbs {
		q.Verb = verb
		ok, _, err := t.isAllowed(ctx, q)
		if err != nil {
			c.OK, c.Detail = false, err.Error()
			return c
		}
		if !ok {
			missing = append(missing, verb)
		}
	}
	if len(missing) > 0 {
		c.OK, c.Detail, c.Fix = false, strings.Join(missing, ", ")+" not allowed: "+r.what, r.roleText(missing)
	}
	return c
}

// checkLevel checks the Pod Security level of a namespace.
func (t *target) checkLevel(ctx context.Context) atoll.Check {
	c := atoll.Check{Name: "namespace " + t.namespace}
	ns, err := t.core.Namespaces().Get(ctx, t.namespace, metav1.GetOptions{})
	switch err = markError(err); {
	case errors.Is(err, atoll.ErrNotFound):
		c.OK, c.Detail = true, "it is created with the first sandbox"
		q := authorizationv1.ResourceAttributes{Resource: "namespaces", Verb: "patch", Name: t.namespace}
		if ok, _, _ := t.isAllowed(ctx, q); !ok {
			c.OK, c.Needed, c.Detail, c.Fix = false, true, "it does not exist and creating it is not allowed", "kubectl create namespace "+t.namespace
		}
	case err != nil:
		c.OK, c.Detail = true, "it may not be looked at, and is taken to be there"
	case ns.DeletionTimestamp != nil:
		c.Needed, c.Detail, c.Fix = true, "it is being deleted", "wait until it is removed"
	case ns.Labels[levelLabel] == "":
		c.Detail, c.Fix = "no Pod Security level is enforced; sandboxes satisfy "+t.d.securityLevel()+", but nothing sees to it", fmt.Sprintf("kubectl label namespace %s %s=%s", t.namespace, levelLabel, t.d.securityLevel())
	case ns.Labels[levelLabel] == "restricted" && t.d.Privileged:
		c.Needed, c.Detail, c.Fix = true, "Pod Security's \"restricted\" is enforced, and the driver is privileged", fmt.Sprintf("kubectl label --overwrite namespace %s %s=baseline", t.namespace, levelLabel)
	default:
		c.OK, c.Detail = true, "Pod Security enforces "+ns.Labels[levelLabel]
	}
	return c
}

// checkClasses reports the storage classes and runtimes.
func (t *target) checkClasses(ctx context.Context) atoll.Check {
	c := atoll.Check{Name: "storage classes and runtimes"}
	names, usual, err := t.storageClasses(ctx)
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	runtimes, err := t.runtimeClasses(ctx)
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	c.OK = true
	c.Detail = "storage: " + wordsOf(names) + " (default: " + orDefault(usual, "none") + "); runtimes: " + wordsOf(runtimes)
	return c
}

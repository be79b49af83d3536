package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/egress/policy"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// networkPolicies returns the network policies: sandboxes have no network, and more for some modes.
// Other pods of the namespace are not affected.
func (t *target) networkPolicies() []*networkingv1.NetworkPolicy {
	all := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: labelID, Operator: metav1.LabelSelectorOpExists}}}
	of := func(m atoll.NetworkMode) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{labelNetwork: string(m)}}
	}
	list := []*networkingv1.NetworkPolicy{
		t.newPolicy("atoll-none", all, nil, nil, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress),
		t.newPolicy("atoll-nat", of(atoll.NetworkNAT), nil, []networkingv1.NetworkPolicyEgressRule{t.internetRule(), dnsRule()}, networkingv1.PolicyTypeEgress),
		t.newPolicy("atoll-open", of(atoll.NetworkOpen), nil, []networkingv1.NetworkPolicyEgressRule{{}}, networkingv1.PolicyTypeEgress),
	}
	if t.d.Direct {
		tcp, port := corev1.ProtocolTCP, intstr.FromInt32(directPort)
		servers := networkingv1.NetworkPolicyPeer{
			NamespaceSelector: &metav1.LabelSelector{},
			PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "atoll"}},
		}
		rule := networkingv1.NetworkPolicyIngressRule{
			From: []networkingv1.NetworkPolicyPeer{servers}, Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &port}},
		}
		list = append(list, t.newPolicy("atoll-direct", all, []networkingv1.NetworkPolicyIngressRule{rule}, nil, networkingv1.PolicyTypeIngress))
	}
	return list
}

func (t *target) newPolicy(name string, pods metav1.LabelSelector, in []networkingv1.NetworkPolicyIngressRule, out []networkingv1.NetworkPolicyEgressRule, kinds ...networkingv1.PolicyType) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{labelManaged: "atoll"}},
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: pods, Ingress: in, Egress: out, PolicyTypes: kinds},
	}
}

// applyPolicy creates or changes a policy. Without the permission for that, it accepts an existing
// policy with the same content.
func (t *target) applyPolicy(ctx context.Context, policy *networkingv1.NetworkPolicy) error {
	err := t.applyObject(ctx, policy, func(ctx context.Context, data []byte, o metav1.PatchOptions) error {
		_, err := t.net.NetworkPolicies(t.namespace).Patch(ctx, policy.Name, types.ApplyPatchType, data, o)
		return err
	})
	if err == nil {
		return nil
	}
	var found *networkingv1.NetworkPolicy
	look := t.callAPI(ctx, func(ctx context.Context) (err error) {
		found, err = t.net.NetworkPolicies(t.namespace).Get(ctx, policy.Name, metav1.GetOptions{})
		return err
	})
	if errors.Is(err, atoll.ErrDenied) && look == nil && equality.Semantic.DeepEqual(found.Spec, policy.Spec) {
		return nil
	}
	return fmt.Errorf("network policy %s of namespace %s, without which nothing is started: %w", policy.Name, t.namespace, err)
}

// internetRule returns the rule for the public internet, without the API of the cluster.
func (t *target) internetRule() networkingv1.NetworkPolicyEgressRule {
	block := func(cidr string, but []string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: but}}
	}
	reserved := policy.ReservedRanges()
	if u, err := url.Parse(t.config.Host); err == nil {
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && policy.IsPublic(a.Unmap()) {
			reserved = append(reserved, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
		}
	}
	var except4, except6 []string
	for _, p := range reserved {
		if p.Addr().Is4() {
			except4 = append(except4, p.String())
		} else {
			except6 = append(except6, p.String())
		}
	}
	return networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{block("0.0.0.0/0", except4), block("::/0", except6)}}
}

// dnsRule returns the rule for the cluster's DNS.
func dnsRule() networkingv1.NetworkPolicyEgressRule {
	port := intstr.FromInt32(53)
	var ports []networkingv1.NetworkPolicyPort
	for _, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
		ports = append(ports, networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &port})
	}
	return networkingv1.NetworkPolicyEgressRule{Ports: ports, To: []networkingv1.NetworkPolicyPeer{{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: metav1.NamespaceSystem}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}},
	}}}
}

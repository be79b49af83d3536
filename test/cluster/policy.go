package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
)

// policyEnforcer enforces the NetworkPolicies of pods on this node with iptables:
// IPv4 only, all kinds of peers and ports. It does not close connections that exist
// when a policy is created, and the node itself can connect to every pod.
type policyEnforcer struct {
	pods       corelisters.PodLister
	namespaces corelisters.NamespaceLister
	policies   networkinglisters.NetworkPolicyLister
	logf       func(string, ...any)
	changed    chan struct{}
	synced     []cache.InformerSynced
	oldChains  []string // chains of the rules in force
}

func newPolicyEnforcer(f informers.SharedInformerFactory, logf func(string, ...any)) (*policyEnforcer, error) {
	p := &policyEnforcer{
		pods: f.Core().V1().Pods().Lister(), namespaces: f.Core().V1().Namespaces().Lister(),
		policies: f.Networking().V1().NetworkPolicies().Lister(), logf: logf, changed: make(chan struct{}, 1),
	}
	notify := func(any) {
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}
	handler := handleEach(notify)
	handler.DeleteFunc = notify
	for _, i := range []cache.SharedIndexInformer{
		f.Core().V1().Pods().Informer(), f.Core().V1().Namespaces().Informer(), f.Networking().V1().NetworkPolicies().Informer(),
	} {
		r, err := i.AddEventHandler(handler)
		if err != nil {
			return nil, err
		}
		p.synced = append(p.synced, r.HasSynced)
	}
	return p, nil
}

// run applies the rules after every change, at most every 20 ms, until ctx is done.
func (p *policyEnforcer) run(ctx context.Context) {
	cache.WaitForCacheSync(ctx.Done(), p.synced...)
	for hooked := false; ; {
		if err := p.applyRules(ctx, &hooked); err != nil {
			p.logf("network policies: %v", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		}
	}
}

const policyChain = "ATOLL-POLICY"

// applyRules replaces all rules atomically. It inserts the jumps to them unless
// *hooked, which it then sets.
func (p *policyEnforcer) applyRules(ctx context.Context, hooked *bool) error {
	r, err := p.buildRules()
	if err != nil {
		return err
	}
	text := r.formatRestoreInput(p.oldChains, !*hooked)
	c := exec.CommandContext(ctx, "iptables-restore", "--noflush", "--wait", "5")
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("iptables-restore: %w: %s", err, out)
	}
	*hooked, p.oldChains = true, r.chains
	return nil
}

// buildRules returns the rules that enforce the current policies for the current
// pods.
func (p *policyEnforcer) buildRules() (*ruleset, error) {
	all, err := p.policies.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	list, err := p.pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(slices.Clone(list), func(pod *corev1.Pod) bool { return !hasOwnAddress(pod) })
	r := &ruleset{}
	r.add("-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN")
	for _, pod := range list {
		for _, d := range []direction{egress, ingress} {
			if err := p.isolatePod(r, pod, d, all, list); err != nil {
				return nil, err
			}
		}
	}
	if len(all) > 0 { // a policy may select a pod that is not known yet
		r.dropUnknownPods(list)
	}
	return r, nil
}

// hasOwnAddress reports whether the pod has an IP address that it does not share
// with the node.
func hasOwnAddress(pod *corev1.Pod) bool {
	return pod.Status.PodIP != "" && !pod.Spec.HostNetwork && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// direction is that of the traffic to which a rule of a policy applies.
type direction struct {
	kind       networkingv1.PolicyType
	self, peer string // iptables options for the addresses of pod and peer
}

var (
	egress  = direction{networkingv1.PolicyTypeEgress, "-s", "-d"}
	ingress = direction{networkingv1.PolicyTypeIngress, "-d", "-s"}
)

// isolatePod adds a chain for a pod and a direction, if any policy selects the pod:
// it drops traffic that no rule of these policies allows.
func (p *policyEnforcer) isolatePod(r *ruleset, pod *corev1.Pod, d direction, all []*networkingv1.NetworkPolicy, pods []*corev1.Pod) error {
	chain := ""
	for _, policy := range all {
		selects, err := matchesSelector(&policy.Spec.PodSelector, pod.Labels)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", policy.Namespace, policy.Name, err)
		}
		if policy.Namespace != pod.Namespace || !selects || !slices.Contains(policy.Spec.PolicyTypes, d.kind) {
			continue
		}
		if chain == "" {
			chain = r.addChain("ATOLL-"+string(d.kind[:1])+"-", pod.Namespace+"/"+pod.Name)
			r.addTo(chain, "-j MARK --set-xmark 0/"+allowedMark)
			r.add("%s %s -j %s", d.self, pod.Status.PodIP, chain)
		}
		for _, rule := range listRules(policy, d) {
			if err := p.addRule(r, chain, pod, d, rule, policy.Namespace, pods); err != nil {
				return fmt.Errorf("%s/%s: %w", policy.Namespace, policy.Name, err)
			}
		}
	}
	if chain != "" {
		r.addTo(chain, "-m mark ! --mark "+allowedMark+"/"+allowedMark+" -j DROP")
	}
	return nil
}

// rule is an ingress or egress rule.
type rule struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

// listRules returns a policy's rules for a direction.
func listRules(p *networkingv1.NetworkPolicy, d direction) []rule {
	var list []rule
	if d.kind == networkingv1.PolicyTypeIngress {
		for _, i := range p.Spec.Ingress {
			list = append(list, rule{i.From, i.Ports})
		}
		return list
	}
	for _, e := range p.Spec.Egress {
		list = append(list, rule{e.To, e.Ports})
	}
	return list
}

// addRule adds the traffic that one rule allows to a pod's chain.
func (p *policyEnforcer) addRule(r *ruleset, chain string, pod *corev1.Pod, d direction, rule rule, namespace string, pods []*corev1.Pod) error {
	if len(rule.peers) == 0 {
		for _, port := range formatPortMatches(rule.ports, pod) {
			r.addTo(chain, strings.TrimSpace(port+" "+setAllowedMark))
		}
	}
	for _, peer := range rule.peers {
		if peer.IPBlock != nil {
			for _, port := range formatPortMatches(rule.ports, pod) {
				r.addIPBlock(chain, d, peer.IPBlock, port)
			}
			continue
		}
		for _, other := range pods {
			is, err := p.isPeer(other, peer, namespace)
			if err != nil {
				return err
			}
			if !is {
				continue
			}
			target := pod
			if d == egress {
				target = other
			}
			for _, port := range formatPortMatches(rule.ports, target) {
				r.addTo(chain, strings.TrimSpace(d.peer+" "+other.Status.PodIP+" "+port)+" "+setAllowedMark)
			}
		}
	}
	return nil
}

// isPeer reports whether the peer of a policy in a namespace selects a pod.
func (p *policyEnforcer) isPeer(pod *corev1.Pod, peer networkingv1.NetworkPolicyPeer, namespace string) (bool, error) {
	if peer.NamespaceSelector == nil {
		if pod.Namespace != namespace {
			return false, nil
		}
	} else {
		ns, err := p.namespaces.Get(pod.Namespace)
		if err != nil {
			return false, nil //nolint:nilerr // a namespace that is not known yet has no labels that match
		}
		if is, err := matchesSelector(peer.NamespaceSelector, ns.Labels); err != nil || !is {
			return false, err
		}
	}
	return matchesSelector(peer.PodSelector, pod.Labels)
}

// matchesSelector reports whether a selector matches labels. A nil selector matches
// all, as an empty one does.
func matchesSelector(s *metav1.LabelSelector, set map[string]string) (bool, error) {
	if s == nil {
		return true, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return false, err
	}
	return selector.Matches(labels.Set(set)), nil
}

// formatPortMatches returns the iptables options that match each of the ports.
// Named ports are looked up in target. Without ports it returns one empty string,
// which matches all.
func formatPortMatches(ports []networkingv1.NetworkPolicyPort, target *corev1.Pod) []string {
	if len(ports) == 0 {
		return []string{""}
	}
	var list []string
	for _, p := range ports {
		proto := corev1.ProtocolTCP
		if p.Protocol != nil {
			proto = *p.Protocol
		}
		m := "-p " + strings.ToLower(string(proto))
		switch {
		case p.Port == nil:
			list = append(list, m)
		case p.EndPort != nil:
			list = append(list, fmt.Sprintf("%s --dport %d:%d", m, p.Port.IntVal, *p.EndPort))
		case p.Port.StrVal == "":
			list = append(list, fmt.Sprintf("%s --dport %d", m, p.Port.IntVal))
		default:
			for _, c := range target.Spec.Containers {
				for _, named := range c.Ports {
					if named.Name == p.Port.StrVal && (named.Protocol == proto || named.Protocol == "") {
						list = append(list, fmt.Sprintf("%s --dport %d", m, named.ContainerPort))
					}
				}
			}
		}
	}
	return list
}

// allowedMark is the bit of a packet's mark that is set when a rule allows the
// packet. kube-proxy uses other bits.
const (
	allowedMark    = "0x100000"
	setAllowedMark = "-j MARK --set-xmark " + allowedMark + "/" + allowedMark
)

// ruleset collects rules for iptables-restore.
type ruleset struct {
	chains []string
	lines  []string
}

// add adds a rule to the main chain.
func (r *ruleset) add(format string, args ...any) {
	r.addTo(policyChain, fmt.Sprintf(format, args...))
}

// addTo adds a rule to a chain.
func (r *ruleset) addTo(chain, text string) {
	r.lines = append(r.lines, "-A "+chain+" "+text)
}

// addChain adds an empty chain and returns its name: prefix and a hash of what.
func (r *ruleset) addChain(prefix, what string) string {
	sum := sha256.Sum256([]byte(what))
	name := prefix + hex.EncodeToString(sum[:7])
	r.chains = append(r.chains, name)
	return name
}

// addIPBlock allows the addresses of a block without its exceptions, which another
// rule may allow.
func (r *ruleset) addIPBlock(chain string, d direction, b *networkingv1.IPBlock, port string) {
	if strings.Contains(b.CIDR, ":") {
		return
	}
	match := strings.TrimSpace(d.peer + " " + b.CIDR + " " + port)
	if len(b.Except) == 0 {
		r.addTo(chain, match+" "+setAllowedMark)
		return
	}
	inner := r.addChain("ATOLL-B-", fmt.Sprint(chain, len(r.chains)))
	for _, e := range b.Except {
		r.addTo(inner, d.peer+" "+e+" -j RETURN")
	}
	r.addTo(inner, setAllowedMark)
	r.addTo(chain, match+" -j "+inner)
}

// dropUnknownPods drops packets from and to pod addresses that are not in pods. TCP
// sends them again after a second, when the pod may be known.
func (r *ruleset) dropUnknownPods(pods []*corev1.Pod) {
	const chain = "ATOLL-UNKNOWN"
	r.chains = append(r.chains, chain, chain+"-TO")
	for _, p := range pods {
		r.addTo(chain, "-s "+p.Status.PodIP+" -j RETURN")
		r.addTo(chain+"-TO", "-d "+p.Status.PodIP+" -j RETURN")
	}
	r.addTo(chain, "-j DROP")
	r.addTo(chain+"-TO", "-j DROP")
	r.add("-s %s -j %s", podNetwork, chain)
	r.add("-d %s -j %s", podNetwork, chain+"-TO")
}

// formatRestoreInput returns the input of iptables-restore. It removes those chains
// of old that the rules do not use; with hook it inserts jumps to the main chain.
func (r *ruleset) formatRestoreInput(old []string, hook bool) string {
	var b strings.Builder
	b.WriteString("*filter\n:" + policyChain + " - [0:0]\n")
	chains := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(old), r.chains...))))
	for _, c := range chains {
		b.WriteString(":" + c + " - [0:0]\n")
	}
	if hook {
		b.WriteString("-I FORWARD 1 -j " + policyChain + "\n-I INPUT 1 -j " + policyChain + "\n")
	}
	for _, l := range r.lines {
		b.WriteString(l + "\n")
	}
	for _, c := range chains {
		if !slices.Contains(r.chains, c) {
			b.WriteString("-X " + c + "\n")
		}
	}
	b.WriteString("COMMIT\n")
	return b.String()
}

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

// policies keep the NetworkPolicies of pods on this node: IPv4, all kinds of
// peers and ports. Connections that exist when a policy comes are left alone,
// and the node itself reaches every pod.
type policies struct {
	pods       corelisters.PodLister
	namespaces corelisters.NamespaceLister
	policies   networkinglisters.NetworkPolicyLister
	say        func(string, ...any)
	changed    chan struct{}
	synced     []cache.InformerSynced
	old        []string // chains of the last rules
}

func newPolicies(f informers.SharedInformerFactory, say func(string, ...any)) (*policies, error) {
	p := &policies{
		pods: f.Core().V1().Pods().Lister(), namespaces: f.Core().V1().Namespaces().Lister(),
		policies: f.Networking().V1().NetworkPolicies().Lister(), say: say, changed: make(chan struct{}, 1),
	}
	notify := func(any) {
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}
	handler := each(notify)
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

// run applies the rules again after every change, at most every 20 ms.
func (p *policies) run(ctx context.Context) {
	cache.WaitForCacheSync(ctx.Done(), p.synced...)
	for hooked := false; ; {
		if err := p.apply(ctx, &hooked); err != nil {
			p.say("network policies: %v", err)
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

// apply replaces all rules in one step.
func (p *policies) apply(ctx context.Context, hooked *bool) error {
	r, err := p.rules()
	if err != nil {
		return err
	}
	text := r.restore(p.old, !*hooked)
	c := exec.CommandContext(ctx, "iptables-restore", "--noflush", "--wait", "5")
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("iptables-restore: %w: %s", err, out)
	}
	*hooked, p.old = true, r.chains
	return nil
}

// rules says what the policies mean for the pods that are there.
func (p *policies) rules() (*ruleset, error) {
	all, err := p.policies.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	list, err := p.pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(slices.Clone(list), func(pod *corev1.Pod) bool { return !addressed(pod) })
	r := &ruleset{}
	r.add("-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN")
	for _, pod := range list {
		for _, d := range []direction{egress, ingress} {
			if err := p.isolate(r, pod, d, all, list); err != nil {
				return nil, err
			}
		}
	}
	if len(all) > 0 { // a pod that is not known yet may be one that a policy means
		r.unknown(list)
	}
	return r, nil
}

// addressed says whether the pod has an address that only it has.
func addressed(pod *corev1.Pod) bool {
	return pod.Status.PodIP != "" && !pod.Spec.HostNetwork && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// direction is one of the two kinds of rules of a policy.
type direction struct {
	kind       networkingv1.PolicyType
	self, peer string // options for the addresses of pod and peer
}

var (
	egress  = direction{networkingv1.PolicyTypeEgress, "-s", "-d"}
	ingress = direction{networkingv1.PolicyTypeIngress, "-d", "-s"}
)

// isolate adds the chain of a pod, if any policy selects it: what no rule of
// any of them allows is dropped.
func (p *policies) isolate(r *ruleset, pod *corev1.Pod, d direction, all []*networkingv1.NetworkPolicy, pods []*corev1.Pod) error {
	chain := ""
	for _, policy := range all {
		selects, err := matches(&policy.Spec.PodSelector, pod.Labels)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", policy.Namespace, policy.Name, err)
		}
		if policy.Namespace != pod.Namespace || !selects || !slices.Contains(policy.Spec.PolicyTypes, d.kind) {
			continue
		}
		if chain == "" {
			chain = r.chain("ATOLL-"+string(d.kind[:1])+"-", pod.Namespace+"/"+pod.Name)
			r.addTo(chain, "-j MARK --set-xmark 0/"+allowed)
			r.add("%s %s -j %s", d.self, pod.Status.PodIP, chain)
		}
		for _, rule := range rulesOf(policy, d) {
			if err := p.allow(r, chain, pod, d, rule, policy.Namespace, pods); err != nil {
				return fmt.Errorf("%s/%s: %w", policy.Namespace, policy.Name, err)
			}
		}
	}
	if chain != "" {
		r.addTo(chain, "-m mark ! --mark "+allowed+"/"+allowed+" -j DROP")
	}
	return nil
}

// rule is an ingress or egress rule.
type rule struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

func rulesOf(p *networkingv1.NetworkPolicy, d direction) []rule {
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

// allow adds what one rule lets through.
func (p *policies) allow(r *ruleset, chain string, pod *corev1.Pod, d direction, rule rule, namespace string, pods []*corev1.Pod) error {
	if len(rule.peers) == 0 {
		for _, port := range portMatches(rule.ports, pod) {
			r.addTo(chain, strings.TrimSpace(port+" "+mark))
		}
	}
	for _, peer := range rule.peers {
		if peer.IPBlock != nil {
			for _, port := range portMatches(rule.ports, pod) {
				r.block(chain, d, peer.IPBlock, port)
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
			for _, port := range portMatches(rule.ports, target) {
				r.addTo(chain, strings.TrimSpace(d.peer+" "+other.Status.PodIP+" "+port)+" "+mark)
			}
		}
	}
	return nil
}

// isPeer says whether a policy of the namespace means this pod by peer.
func (p *policies) isPeer(pod *corev1.Pod, peer networkingv1.NetworkPolicyPeer, namespace string) (bool, error) {
	if peer.NamespaceSelector == nil {
		if pod.Namespace != namespace {
			return false, nil
		}
	} else {
		ns, err := p.namespaces.Get(pod.Namespace)
		if err != nil {
			return false, nil //nolint:nilerr // a namespace that is not known yet has no labels that match
		}
		if is, err := matches(peer.NamespaceSelector, ns.Labels); err != nil || !is {
			return false, err
		}
	}
	return matches(peer.PodSelector, pod.Labels)
}

// matches: no selector selects all, like an empty one.
func matches(s *metav1.LabelSelector, set map[string]string) (bool, error) {
	if s == nil {
		return true, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return false, err
	}
	return selector.Matches(labels.Set(set)), nil
}

// portMatches are the options that match each of the ports, of which names
// mean those of target; no ports match with no option.
func portMatches(ports []networkingv1.NetworkPolicyPort, target *corev1.Pod) []string {
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

// allowed is the bit of a packet's mark that says that a rule has let it
// through. kube-proxy uses others.
const (
	allowed = "0x100000"
	mark    = "-j MARK --set-xmark " + allowed + "/" + allowed
)

// ruleset is text for iptables-restore.
type ruleset struct {
	chains []string
	lines  []string
}

func (r *ruleset) add(format string, args ...any) {
	r.addTo(policyChain, fmt.Sprintf(format, args...))
}

func (r *ruleset) addTo(chain, text string) {
	r.lines = append(r.lines, "-A "+chain+" "+text)
}

// chain adds an empty chain whose name comes from what it is for.
func (r *ruleset) chain(prefix, what string) string {
	sum := sha256.Sum256([]byte(what))
	name := prefix + hex.EncodeToString(sum[:7])
	r.chains = append(r.chains, name)
	return name
}

// block allows addresses but for some of them, which another rule may allow.
func (r *ruleset) block(chain string, d direction, b *networkingv1.IPBlock, port string) {
	if strings.Contains(b.CIDR, ":") {
		return
	}
	match := strings.TrimSpace(d.peer + " " + b.CIDR + " " + port)
	if len(b.Except) == 0 {
		r.addTo(chain, match+" "+mark)
		return
	}
	inner := r.chain("ATOLL-B-", fmt.Sprint(chain, len(r.chains)))
	for _, e := range b.Except {
		r.addTo(inner, d.peer+" "+e+" -j RETURN")
	}
	r.addTo(inner, mark)
	r.addTo(chain, match+" -j "+inner)
}

// unknown drops what comes from or goes to addresses of pods that have not
// been seen yet. TCP tries again after a second.
func (r *ruleset) unknown(pods []*corev1.Pod) {
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

// restore is the whole input of iptables-restore: chains of old that are no
// more wanted are removed.
func (r *ruleset) restore(old []string, hook bool) string {
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

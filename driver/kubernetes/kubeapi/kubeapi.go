// Package kubeapi has clients for the parts of Kubernetes' API that atoll uses, with client-go's types.
// client-go's own typed clients register every group of the API when a program starts, which costs
// milliseconds and megabytes.
package kubeapi

import (
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// ObjectClient is the client of one kind of objects. It returns objects that are not shared.
type ObjectClient[T object, L runtime.Object] = gentype.ClientWithList[T, L]

type object interface {
	runtime.Object
	metav1.Object
}

// API is a cluster's API. It may be used from many goroutines at once.
type API struct {
	Core          Core
	Networking    Networking
	Node          Node
	Storage       Storage
	Authorization Authorization
}

// The groups.
type (
	Core          struct{ group }
	Networking    struct{ group }
	Node          struct{ group }
	Storage       struct{ group }
	Authorization struct{ group }
)

// group is a group of the API in one version.
type group struct {
	rest  rest.Interface
	codec runtime.ParameterCodec
}

// RESTClient returns the client for requests that have no method here.
func (g group) RESTClient() rest.Interface { return g.rest }

// New returns the API of a configuration. It makes no requests.
func New(config *rest.Config, c *http.Client) (*API, error) {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, networkingv1.AddToScheme, nodev1.AddToScheme, storagev1.AddToScheme, authorizationv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	a := &API{}
	for _, g := range []struct {
		to      *group
		path    string
		version schema.GroupVersion
	}{
		{&a.Core.group, "/api", corev1.SchemeGroupVersion},
		{&a.Networking.group, "/apis", networkingv1.SchemeGroupVersion},
		{&a.Node.group, "/apis", nodev1.SchemeGroupVersion},
		{&a.Storage.group, "/apis", storagev1.SchemeGroupVersion},
		{&a.Authorization.group, "/apis", authorizationv1.SchemeGroupVersion},
	} {
		own := rest.CopyConfig(config)
		own.APIPath, own.GroupVersion = g.path, &g.version
		own.NegotiatedSerializer = serializer.NewCodecFactory(s).WithoutConversion()
		r, err := rest.RESTClientForConfigAndClient(own, c)
		if err != nil {
			return nil, err
		}
		*g.to = group{r, runtime.NewParameterCodec(s)}
	}
	return a, nil
}

func newObject[T any]() *T { return new(T) }

func set[T object, L runtime.Object](g group, resource, namespace string, one func() T, list func() L) *ObjectClient[T, L] {
	return gentype.NewClientWithList(resource, g.rest, g.codec, namespace, one, list)
}

// Pods is the client of the pods of a namespace.
type Pods struct {
	*ObjectClient[*corev1.Pod, *corev1.PodList]
	group group
}

// Pods returns the client of the pods of a namespace; empty: of all.
func (c Core) Pods(namespace string) Pods {
	return Pods{set(c.group, "pods", namespace, newObject[corev1.Pod], newObject[corev1.PodList]), c.group}
}

// GetLogs returns a request for the log of a container.
func (p Pods) GetLogs(name string, o *corev1.PodLogOptions) *rest.Request {
	return p.group.rest.Get().Namespace(p.GetNamespace()).Resource("pods").Name(name).SubResource("log").VersionedParams(o, p.group.codec)
}

// PersistentVolumeClaims returns the client for a namespace; empty: for all.
func (c Core) PersistentVolumeClaims(namespace string) *ObjectClient[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList] {
	return set(c.group, "persistentvolumeclaims", namespace, newObject[corev1.PersistentVolumeClaim], newObject[corev1.PersistentVolumeClaimList])
}

// Secrets returns the client for a namespace; empty: for all.
func (c Core) Secrets(namespace string) *ObjectClient[*corev1.Secret, *corev1.SecretList] {
	return set(c.group, "secrets", namespace, newObject[corev1.Secret], newObject[corev1.SecretList])
}

// Events returns the client for a namespace; empty: for all.
func (c Core) Events(namespace string) *ObjectClient[*corev1.Event, *corev1.EventList] {
	return set(c.group, "events", namespace, newObject[corev1.Event], newObject[corev1.EventList])
}

// ResourceQuotas returns the client for a namespace; empty: for all.
func (c Core) ResourceQuotas(namespace string) *ObjectClient[*corev1.ResourceQuota, *corev1.ResourceQuotaList] {
	return set(c.group, "resourcequotas", namespace, newObject[corev1.ResourceQuota], newObject[corev1.ResourceQuotaList])
}

// ServiceAccounts returns the client for a namespace; empty: for all.
func (c Core) ServiceAccounts(namespace string) *ObjectClient[*corev1.ServiceAccount, *corev1.ServiceAccountList] {
	return set(c.group, "serviceaccounts", namespace, newObject[corev1.ServiceAccount], newObject[corev1.ServiceAccountList])
}

// Services returns the client for a namespace; empty: for all.
func (c Core) Services(namespace string) *ObjectClient[*corev1.Service, *corev1.ServiceList] {
	return set(c.group, "services", namespace, newObject[corev1.Service], newObject[corev1.ServiceList])
}

// Namespaces returns the client for the cluster's namespaces.
func (c Core) Namespaces() *ObjectClient[*corev1.Namespace, *corev1.NamespaceList] {
	return set(c.group, "namespaces", "", newObject[corev1.Namespace], newObject[corev1.NamespaceList])
}

// Nodes returns the client for the cluster's nodes.
func (c Core) Nodes() *ObjectClient[*corev1.Node, *corev1.NodeList] {
	return set(c.group, "nodes", "", newObject[corev1.Node], newObject[corev1.NodeList])
}

// NetworkPolicies returns the client for a namespace; empty: for all.
func (n Networking) NetworkPolicies(namespace string) *ObjectClient[*networkingv1.NetworkPolicy, *networkingv1.NetworkPolicyList] {
	return set(n.group, "networkpolicies", namespace, newObject[networkingv1.NetworkPolicy], newObject[networkingv1.NetworkPolicyList])
}

// RuntimeClasses returns the client for the cluster's RuntimeClasses.
func (n Node) RuntimeClasses() *ObjectClient[*nodev1.RuntimeClass, *nodev1.RuntimeClassList] {
	return set(n.group, "runtimeclasses", "", newObject[nodev1.RuntimeClass], newObject[nodev1.RuntimeClassList])
}

// StorageClasses returns the client for the cluster's storage classes.
func (s Storage) StorageClasses() *ObjectClient[*storagev1.StorageClass, *storagev1.StorageClassList] {
	return set(s.group, "storageclasses", "", newObject[storagev1.StorageClass], newObject[storagev1.StorageClassList])
}

// SelfSubjectAccessReviews returns the client for questions whether this user may do something.
func (a Authorization) SelfSubjectAccessReviews() *gentype.Client[*authorizationv1.SelfSubjectAccessReview] {
	return gentype.NewClient("selfsubjectaccessreviews", a.rest, a.codec, "", newObject[authorizationv1.SelfSubjectAccessReview])
}

// SelfSubjectRulesReviews returns the client for questions what this user may do.
func (a Authorization) SelfSubjectRulesReviews() *gentype.Client[*authorizationv1.SelfSubjectRulesReview] {
	return gentype.NewClient("selfsubjectrulesreviews", a.rest, a.codec, "", newObject[authorizationv1.SelfSubjectRulesReview])
}

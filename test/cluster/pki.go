package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// authority signs the certificates of one cluster.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// listUsers returns the users of the API server with their certificate subjects,
// whose organizations are Kubernetes groups.
func listUsers() map[string]pkix.Name {
	return map[string]pkix.Name{
		"admin":              {CommonName: "admin", Organization: []string{"system:masters"}},
		"controller-manager": {CommonName: "system:kube-controller-manager"},
		"scheduler":          {CommonName: "system:kube-scheduler"},
		"proxy":              {CommonName: "system:kube-proxy"},
		"kubelet":            {CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}},
	}
}

// writeKeys creates all keys, certificates and kubeconfigs of the cluster.
func writeKeys(s stateDir) error {
	for _, dir := range []string{"pki", "kubeconfig"} {
		if err := os.MkdirAll(s.joinPath(dir), 0o700); err != nil {
			return err
		}
	}
	ca, err := newAuthority(s.joinPath("pki", "ca.crt"))
	if err != nil {
		return err
	}
	node := []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(nodeAddress)}
	err = ca.issueCertificate(s.joinPath("pki", "apiserver"), x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost", nodeName, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: append(node, net.ParseIP(serviceAddress)),
	})
	if err != nil {
		return err
	}
	err = ca.issueCertificate(s.joinPath("pki", "node"), x509.Certificate{
		Subject: pkix.Name{CommonName: nodeName}, DNSNames: []string{nodeName, "localhost"}, IPAddresses: node,
	})
	if err != nil {
		return err
	}
	err = ca.issueCertificate(s.joinPath("pki", "apiserver-kubelet"), x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver-kubelet", Organization: []string{"system:masters"}},
	})
	if err != nil {
		return err
	}
	for name, subject := range listUsers() {
		if err := ca.issueCertificate(s.joinPath("pki", name), x509.Certificate{Subject: subject}); err != nil {
			return err
		}
		if err := writeKubeconfig(s, name, s.kubeconfigPath(name), "https://127.0.0.1:6443"); err != nil {
			return err
		}
	}
	return writeAccountKey(s.joinPath("pki", "accounts.key"))
}

func newAuthority(file string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "atoll test cluster"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return &authority{cert, key}, writePEM(file, "CERTIFICATE", der)
}

// issueCertificate writes a new key and its certificate to base.key and base.crt.
func (a *authority) issueCertificate(base string, c x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return err
	}
	c.NotBefore, c.NotAfter = a.cert.NotBefore, a.cert.NotAfter
	c.KeyUsage = x509.KeyUsageDigitalSignature
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, &c, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", base, err)
	}
	if err := writePEM(base+".crt", "CERTIFICATE", der); err != nil {
		return err
	}
	der, err = x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(base+".key", "EC PRIVATE KEY", der)
}

// writeAccountKey creates the key that signs the tokens of service accounts.
func writeAccountKey(file string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	return writePEM(file, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// writeKubeconfig writes a kubeconfig for a user. It contains the keys, so that it
// works wherever it is copied to.
func writeKubeconfig(s stateDir, user, file, server string) error {
	var data [3][]byte
	for i, name := range []string{"ca.crt", user + ".crt", user + ".key"} {
		b, err := os.ReadFile(s.joinPath("pki", name))
		if err != nil {
			return err
		}
		data[i] = b
	}
	c := clientcmdapi.NewConfig()
	c.Clusters["atoll"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: data[0]}
	c.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: data[1], ClientKeyData: data[2]}
	c.Contexts["atoll"] = &clientcmdapi.Context{Cluster: "atoll", AuthInfo: user, Namespace: "default"}
	c.CurrentContext = "atoll"
	return clientcmd.WriteToFile(*c, file)
}

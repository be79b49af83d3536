package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs are those that this binary is, one process each: their flags and
// feature gates are global.
func programs() map[string]func() error {
	return map[string]func() error{
		"kube-apiserver":          func() error { return execute(apiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() error { return execute(controllers.NewControllerManagerCommand()) },
		"kube-scheduler":          func() error { return execute(scheduler.NewSchedulerCommand()) },
		"kube-proxy":              func() error { return execute(proxy.NewProxyCommand()) },
		"kubelet":                 func() error { return execute(kubelet.NewKubeletCommand(context.Background())) },
		"etcd":                    etcd,
	}
}

func execute(c *cobra.Command) error {
	if code := cli.Run(c); code != 0 {
		return exit(code)
	}
	return nil
}

// etcd keeps the cluster's objects in the directory of its only argument.
// What is lost with the machine is nobody's loss: it does not sync.
func etcd() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: cluster etcd DIR")
	}
	c := embed.NewConfig()
	c.Dir = os.Args[1]
	c.LogLevel = "warn"
	c.UnsafeNoFsync = true
	clients := url.URL{Scheme: "http", Host: etcdAddress}
	peers := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	server, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-signals:
		return nil // closing would wait for its clients for seconds
	case err := <-server.Err():
		return err
	}
}

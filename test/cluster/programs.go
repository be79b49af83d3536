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

// listPrograms returns the programs that are part of this binary. Each runs as a
// process of its own, because their flags and feature gates are global.
func listPrograms() map[string]func() error {
	return map[string]func() error{
		"kube-apiserver":          func() error { return runCobra(apiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() error { return runCobra(controllers.NewControllerManagerCommand()) },
		"kube-scheduler":          func() error { return runCobra(scheduler.NewSchedulerCommand()) },
		"kube-proxy":              func() error { return runCobra(proxy.NewProxyCommand()) },
		"kubelet":                 func() error { return runCobra(kubelet.NewKubeletCommand(context.Background())) },
		"etcd":                    runEtcd,
	}
}

// runCobra runs a Kubernetes command and converts its exit status to an error.
func runCobra(c *cobra.Command) error {
	if code := cli.Run(c); code != 0 {
		return exitCode(code)
	}
	return nil
}

// runEtcd runs etcd with its data in the directory that is its only argument. It
// does not sync to disk: the data does not have to survive the machine.
func runEtcd() error {
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
		return nil // Close would wait for clients for seconds
	case err := <-server.Err():
		return err
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/tools/remotecommand"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/kubernetes"
)

// execLikeKubectl runs a command as kubectl exec does.
func (b *bench) execLikeKubectl(ctx context.Context, pod, container string, in io.Reader, out io.Writer, args ...string) error {
	r := b.api.Core.RESTClient().Get().Resource("pods").Namespace(b.namespace).Name(pod).SubResource("exec").Param("container", container).Param("stdout", "true")
	if in != nil {
		r.Param("stdin", "true")
	}
	for _, a := range args {
		r.Param("command", a)
	}
	do, err := remotecommand.NewWebSocketExecutor(b.config, http.MethodGet, r.URL().String())
	if err != nil {
		return err
	}
	return do.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out})
}

// parallel is the number of concurrent commands.
const parallel = 8

// podOf returns the name of a sandbox's pod.
func podOf(sb atoll.Sandbox) string { return "atoll-" + sb.ID() }

const container = "sandbox"

// forEachPath calls f for each way in which a command can reach a pod.
func (b *bench) forEachPath(ctx context.Context, f func(name string, run func() error) error) error {
	hi := func(sb atoll.Sandbox) func() error {
		return func() error {
			exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"echo", "hi"}})
			if err == nil && string(exit.Stdout) != "hi\n" {
				err = fmt.Errorf("unexpected result of echo: %+v", exit)
			}
			return err
		}
	}
	err := withSandbox(ctx, b.newDriver(kubernetes.PlaceCopy), atoll.Spec{}, func(sb atoll.Sandbox) error {
		peer := func() error {
			var out bytes.Buffer
			err := b.execLikeKubectl(ctx, podOf(sb), container, nil, &out, "echo", "hi")
			if err == nil && out.String() != "hi\n" {
				err = fmt.Errorf("unexpected output of echo: %q", out.String())
			}
			return err
		}
		return errors.Join(f("atoll, through its tunnel", hi(sb)), f("client-go's exec, WebSocket", peer))
	})
	return errors.Join(err, withSandbox(ctx, b.newDriver(kubernetes.PlaceNone), atoll.Spec{}, func(sb atoll.Sandbox) error {
		return f("atoll without a guest, through exec", hi(sb))
	}))
}

// measureCommands measures trivial commands.
func (b *bench) measureCommands(ctx context.Context) error {
	err := b.forEachPath(ctx, func(name string, run func() error) error {
		list, err := timeRepeated(b.n, run)
		b.addRow("echo hi", name, list, "", err)
		return nil
	})
	if err != nil {
		return err
	}
	return b.forEachPath(ctx, func(name string, run func() error) error {
		each := max(1, b.n/parallel)
		var list []time.Duration
		took, all, err := timeConcurrent(parallel, func(int) error {
			_, err := timeRepeated(each-1, run)
			return err
		})
		for _, d := range took {
			list = append(list, d/time.Duration(each))
		}
		b.addRow(fmt.Sprintf("echo hi, %d at once", parallel), name, list, fmt.Sprintf("%.0f/s", float64(parallel*each)/all.Seconds()), err)
		return nil
	})
}

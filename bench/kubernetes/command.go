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

// peer runs a command as kubectl does.
func (b *bench) peer(ctx context.Context, pod, container string, in io.Reader, out io.Writer, args ...string) error {
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

// parallel is how many commands run at once.
const parallel = 8

// podOf is the name of a sandbox's pod, container that of its container.
func podOf(sb atoll.Sandbox) string { return "atoll-" + sb.ID() }

const container = "sandbox"

// ways are how a command gets to a pod.
func (b *bench) ways(ctx context.Context, f func(name string, run func() error) error) error {
	hi := func(sb atoll.Sandbox) func() error {
		return func() error {
			exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"echo", "hi"}})
			if err == nil && string(exit.Stdout) != "hi\n" {
				err = fmt.Errorf("a wrong answer: %+v", exit)
			}
			return err
		}
	}
	err := with(ctx, b.driver(kubernetes.PlaceCopy), atoll.Spec{}, func(sb atoll.Sandbox) error {
		peer := func() error {
			var out bytes.Buffer
			err := b.peer(ctx, podOf(sb), container, nil, &out, "echo", "hi")
			if err == nil && out.String() != "hi\n" {
				err = fmt.Errorf("a wrong answer: %q", out.String())
			}
			return err
		}
		return errors.Join(f("atoll, through its tunnel", hi(sb)), f("client-go's exec, WebSocket", peer))
	})
	return errors.Join(err, with(ctx, b.driver(kubernetes.PlaceNone), atoll.Spec{}, func(sb atoll.Sandbox) error {
		return f("atoll without a guest, through exec", hi(sb))
	}))
}

// commands measures commands that do nothing.
func (b *bench) commands(ctx context.Context) error {
	err := b.ways(ctx, func(name string, run func() error) error {
		list, err := repeat(b.n, run)
		b.add("echo hi", name, list, "", err)
		return nil
	})
	if err != nil {
		return err
	}
	return b.ways(ctx, func(name string, run func() error) error {
		each := max(1, b.n/parallel)
		var list []time.Duration
		took, all, err := together(parallel, func(int) error {
			_, err := repeat(each-1, run)
			return err
		})
		for _, d := range took {
			list = append(list, d/time.Duration(each))
		}
		b.add(fmt.Sprintf("echo hi, %d at once", parallel), name, list, fmt.Sprintf("%.0f/s", float64(parallel*each)/all.Seconds()), err)
		return nil
	})
}

package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
)

type snapshotIn struct {
	Name    string `json:"name,omitempty" jsonschema:"name of the snapshot; generated if left out"`
	Sandbox string `json:"sandbox,omitempty" jsonschema:"name or id of the sandbox; your default one if left out"`
}

type restoreIn struct {
	Snapshot string `json:"snapshot" jsonschema:"name or id of the snapshot"`
	Sandbox  string `json:"sandbox,omitempty" jsonschema:"name or id of the sandbox; your default one if left out"`
}

type listSnapshotsIn struct {
	Sandbox string `json:"sandbox,omitempty" jsonschema:"name or id of the sandbox; your default one if left out"`
}

type forkIn struct {
	Name     string `json:"name,omitempty" jsonschema:"name of the new sandbox; generated if left out"`
	Snapshot string `json:"snapshot,omitempty" jsonschema:"start from this snapshot; from now if left out"`
	Sandbox  string `json:"sandbox,omitempty" jsonschema:"name or id of the sandbox to fork; your default one if left out"`
}

func (t *tools) addSnapshots(s *mcp.Server) {
	add(s, &mcp.Tool{
		Name:        "snapshot",
		Description: "Take a snapshot of a sandbox's files, to restore it later or to fork others from it. It is fast and takes little space: take one before anything risky.",
		Annotations: changingTool("Take a snapshot", false),
	}, t.takeSnapshot)
	add(s, &mcp.Tool{
		Name:        "restore",
		Description: "Restore a sandbox to a snapshot. All later changes in it are lost; workspaces are not touched.",
		Annotations: changingTool("Restore a snapshot", true),
	}, t.restoreSnapshot)
	add(s, &mcp.Tool{
		Name:        "list_snapshots",
		Description: "List the snapshots of a sandbox.",
		Annotations: readOnlyTool("List snapshots"),
	}, t.listSnapshots)
	add(s, &mcp.Tool{
		Name:        "fork",
		Description: "Fork a sandbox: the new one starts with the same files and is independent, so that two attempts do not disturb each other.",
		Annotations: changingTool("Fork a sandbox", false),
	}, t.forkSandbox)
}

func (t *tools) takeSnapshot(ctx context.Context, _ *mcp.CallToolRequest, in snapshotIn) (string, error) {
	if err := checkNew("name", in.Name); err != nil {
		return "", err
	}
	sb, err := t.open(ctx, in.Sandbox)
	if err != nil {
		return "", err
	}
	info, err := atoll.Snapshot(ctx, sb, in.Name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Snapshot %s holds %d files, %d bytes. restore with \"snapshot\": %q goes back to it.", pointName(info), info.Files, info.Size, pointName(info)), nil
}

func pointName(i atoll.SnapshotInfo) string {
	if i.Name != "" {
		return i.Name
	}
	return i.ID
}

func (t *tools) restoreSnapshot(ctx context.Context, _ *mcp.CallToolRequest, in restoreIn) (string, error) {
	if err := checkKey("snapshot", in.Snapshot); err != nil {
		return "", err
	}
	sb, err := t.open(ctx, in.Sandbox)
	if err != nil {
		return "", err
	}
	if err := atoll.Restore(ctx, sb, in.Snapshot); err != nil {
		return "", err
	}
	return fmt.Sprintf("The sandbox was restored to %s.", in.Snapshot), nil
}

func (t *tools) listSnapshots(ctx context.Context, _ *mcp.CallToolRequest, in listSnapshotsIn) (string, error) {
	sb, err := t.open(ctx, in.Sandbox)
	if err != nil {
		return "", err
	}
	all, err := atoll.Snapshots(ctx, sb)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "There are no snapshots.", nil
	}
	var b strings.Builder
	for _, i := range all {
		fmt.Fprintf(&b, "%s: made %s, %d files, %d bytes\n", pointName(i), i.Created.UTC().Format(time.RFC3339), i.Files, i.Size)
	}
	return truncateText(b.String()), nil
}

func (t *tools) forkSandbox(ctx context.Context, _ *mcp.CallToolRequest, in forkIn) (string, error) {
	if err := errors.Join(checkNew("name", in.Name), checkKey("snapshot", in.Snapshot)); err != nil {
		return "", err
	}
	sb, err := t.open(ctx, in.Sandbox)
	if err != nil {
		return "", err
	}
	fork, err := atoll.Fork(ctx, sb, in.Snapshot, atoll.Spec{Name: in.Name})
	if err != nil {
		return "", err
	}
	st, err := fork.Status(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Sandbox %s is running. Pass \"sandbox\": %q to work in it.", displayName(st), displayName(st)), nil
}

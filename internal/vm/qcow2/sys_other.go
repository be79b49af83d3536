//go:build !linux

package qcow2

import (
	"io/fs"
	"os"
)

const noFollow = 0

func diskUsage(info fs.FileInfo) int64 { return info.Size() }

func cloneFile(*os.File, *os.File) bool { return false }

func nextData(_ *os.File, at, size int64) (from, to int64, err error) { return at, size, nil }

func wrapDiskFull(err error) error { return err }

// Package objectstore keeps the objects of archived sandboxes outside of the hosts: in an S3-compatible object
// storage, or in a directory. What it stores should be sealed ([NewSealer]): others can read and change a bucket.
package objectstore

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Store is a place for objects. Its methods may be called concurrently. Errors match [atoll.ErrNotFound] for a missing
// object, else [atoll.ErrUnavailable] if the storage does not work, whatever the reason; they name it.
type Store interface {
	// Put stores what it reads as an object, and returns its size. After an error, or if the process is killed, the
	// object does not exist, but parts of it may use space until Delete.
	Put(ctx context.Context, key string, content io.Reader) (int64, error)

	// Get opens an object. The caller must close it.
	Get(ctx context.Context, key string) (io.ReadCloser, error)

	// Delete removes an object and what interrupted Puts have left of it. A missing one is no error.
	Delete(ctx context.Context, key string) error

	// List returns the objects whose keys begin with a prefix. It ends with the first error.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]

	// String names the storage, for messages.
	String() string
}

// Object is an object in a listing.
type Object struct {
	Key      string
	Size     int64
	Modified time.Time
}

// Options name a storage.
type Options struct {
	// Storage is an absolute path of a directory, or s3://BUCKET[/PREFIX]. Empty: there is no storage.
	Storage string

	Endpoint  string // of S3: https://HOST[:PORT], or http://… ; empty: that of Amazon S3 in the region
	Region    string // empty: the storage is asked
	PathStyle string // "true": the bucket is in the path of URLs, "false": in their host name; empty: as the endpoint demands
	CAFile    string // PEM file of certificates that the endpoint is trusted by, besides the host's; empty: none

	// AccessKey and SecretKey authenticate requests. Both empty: AWS_ACCESS_KEY_ID and its companions, else
	// ~/.aws/credentials, else the role of this machine in Amazon's cloud.
	AccessKey, SecretKey string

	// Resolve returns the value of a key that is a reference to a secret elsewhere; nil: there are none.
	Resolve func(ctx context.Context, value string) (string, error)
}

// Open returns the storage that o names, or nil for none. It does not connect.
func Open(o Options) (Store, error) {
	if o.Storage == "" {
		return nil, nil
	}
	if err := CheckStorage(o.Storage); err != nil {
		return nil, err
	}
	if filepath.IsAbs(o.Storage) {
		return &Directory{Path: filepath.Clean(o.Storage)}, nil
	}
	return openS3(o)
}

// CheckStorage reports whether a text can be [Options.Storage].
func CheckStorage(text string) error {
	if filepath.IsAbs(text) {
		return nil
	}
	_, _, err := parseBucket(text)
	return err
}

// CheckEndpoint reports whether a text can be [Options.Endpoint].
func CheckEndpoint(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%w: endpoint %q: must be https://HOST[:PORT] or http://HOST[:PORT]", atoll.ErrInvalid, redact(text))
	}
	return nil
}

// redact returns a URL without a password.
func redact(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "…"
	}
	return u.Redacted()
}

// bucketName is the syntax of names of buckets. Dots are allowed, as old buckets have them.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// parseBucket returns the parts of s3://BUCKET/PREFIX. The prefix is empty or ends with a slash.
func parseBucket(text string) (bucket, prefix string, err error) {
	rest, ok := strings.CutPrefix(text, "s3://")
	bucket, prefix, _ = strings.Cut(rest, "/")
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	if !ok || !bucketName.MatchString(bucket) || checkKey(prefix+"x") != nil {
		return "", "", fmt.Errorf("%w: storage %q: must be s3://BUCKET or s3://BUCKET/PREFIX, or an absolute path of a directory", atoll.ErrInvalid, redact(text))
	}
	return bucket, prefix, nil
}

// keySyntax is the syntax of keys: names that every storage and file system allows.
var keySyntax = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

// checkKey refuses keys that are no plain relative paths.
func checkKey(key string) error {
	if len(key) > 512 || !keySyntax.MatchString(key) {
		return fmt.Errorf("%w: object key %.100q: must be names of letters, digits, dots, dashes and underscores, separated by slashes", atoll.ErrInvalid, key)
	}
	return nil
}

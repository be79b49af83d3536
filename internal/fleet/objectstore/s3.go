package objectstore

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the checksum of S3's protocol, against damage on the way
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/atoll-sandbox/atoll"
)

// Sizes and times of transfers with S3.
const (
	partSize    = 16 << 20         // bytes of a part, which are in memory while it is sent
	maxParts    = 10_000           // of S3: objects have at most 156 GiB
	partTimeout = 5 * time.Minute  // for one request with its repetitions
	stallTime   = time.Minute      // without a byte, until a download is begun again
	maxResumes  = 4                // times that a download is begun again without any progress
	resumePause = time.Second      // before a download is begun again, times the attempt
	abortTime   = 30 * time.Second // to remove the parts of a failed upload
)

// s3Store is a Store in a bucket.
type s3Store struct {
	core           *minio.Core
	bucket, prefix string
	name           string
	pause          time.Duration // see resumePause
}

var _ Store = (*s3Store)(nil)

func openS3(o Options) (*s3Store, error) {
	bucket, prefix, err := parseBucket(o.Storage)
	if err != nil {
		return nil, err
	}
	host, secure := "s3.amazonaws.com", true
	if o.Endpoint != "" {
		if err := CheckEndpoint(o.Endpoint); err != nil {
			return nil, err
		}
		u, err := url.Parse(o.Endpoint)
		if err != nil {
			return nil, fmt.Errorf("%w: endpoint: %w", atoll.ErrInvalid, err)
		}
		host, secure = u.Host, u.Scheme == "https"
	}
	if (o.AccessKey == "") != (o.SecretKey == "") {
		return nil, fmt.Errorf("%w: archive.access_key, archive.secret_key: set both or neither", atoll.ErrInvalid)
	}
	transport, err := newTransport(secure, o.CAFile)
	if err != nil {
		return nil, err
	}
	lookup := minio.BucketLookupAuto
	switch o.PathStyle {
	case "true":
		lookup = minio.BucketLookupPath
	case "false":
		lookup = minio.BucketLookupDNS
	}
	core, err := minio.NewCore(host, &minio.Options{
		Creds: newCredentials(o), Secure: secure, Region: o.Region, BucketLookup: lookup, Transport: transport,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: archive storage %s: %w", atoll.ErrInvalid, redact(o.Storage), err)
	}
	name := "s3://" + bucket + "/" + prefix
	if o.Endpoint != "" {
		name += " at " + host
	}
	return &s3Store{core: core, bucket: bucket, prefix: prefix, name: name, pause: resumePause}, nil
}

// newTransport returns a transport that trusts the certificates of a file besides the host's.
func newTransport(secure bool, caFile string) (*http.Transport, error) {
	t, err := minio.DefaultTransport(secure)
	if err != nil || caFile == "" {
		return t, err
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("archive.ca_file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%w: archive.ca_file %s: has no certificates in PEM", atoll.ErrInvalid, caFile)
	}
	if t.TLSClientConfig != nil { // secure
		t.TLSClientConfig.RootCAs = pool
	}
	return t, nil
}

// newCredentials returns the configured credentials, or those that programs of Amazon's cloud find.
func newCredentials(o Options) *credentials.Credentials {
	if o.AccessKey == "" {
		return credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}})
	}
	if o.Resolve == nil {
		return credentials.NewStaticV4(o.AccessKey, o.SecretKey, "")
	}
	return credentials.New(&resolvedKeys{o: o})
}

// resolvedKeys are keys that may be references to secrets elsewhere. They are resolved for each request; the resolver
// remembers them for a time.
type resolvedKeys struct {
	credentials.Expiry

	o Options
}

// Retrieve resolves the keys.
func (k *resolvedKeys) Retrieve() (credentials.Value, error) {
	ctx, cancel := context.WithTimeout(context.Background(), partTimeout) // the library has no context here
	defer cancel()
	id, err := k.o.Resolve(ctx, k.o.AccessKey)
	if err != nil {
		return credentials.Value{}, fmt.Errorf("archive.access_key: %w", err)
	}
	secret, err := k.o.Resolve(ctx, k.o.SecretKey)
	if err != nil {
		return credentials.Value{}, fmt.Errorf("archive.secret_key: %w", err)
	}
	return credentials.Value{AccessKeyID: id, SecretAccessKey: secret, SignerType: credentials.SignatureV4}, nil
}

// RetrieveWithCredContext resolves the keys.
func (k *resolvedKeys) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	return k.Retrieve()
}

// IsExpired reports that the keys must be resolved again.
func (k *resolvedKeys) IsExpired() bool { return true }

// String returns the bucket with its prefix and endpoint.
func (s *s3Store) String() string { return s.name }

// refusals are the codes of errors of a storage that does not accept its credentials.
var refusals = []string{
	"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "InvalidSecurity", "AccountProblem", "AllAccessDisabled", "AuthorizationHeaderMalformed",
	"XAdminUserNotFound", // of Versity's gateway
}

// explain makes an error of the storage match those of a Store, and names what would help.
func (s *s3Store) explain(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r := minio.ToErrorResponse(err)
	switch {
	case r.Code == "NoSuchKey":
		return fmt.Errorf("%w: archive storage %s: %s: it has no such object", atoll.ErrNotFound, s.name, what)
	case r.Code == "NoSuchBucket":
		return fmt.Errorf("%w: archive storage %s: %s: there is no bucket %s: create it, or correct archive.storage (%w)", atoll.ErrUnavailable, s.name, what, s.bucket, err)
	case slices.Contains(refusals, r.Code) || r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%w: archive storage %s: %s: it refuses the credentials of this server (%s): check archive.access_key, archive.secret_key and archive.region, and what they may do", atoll.ErrUnavailable, s.name, what, r.Code)
	}
	if r.Code != "" {
		err = fmt.Errorf("%s (HTTP %d): %w", r.Code, r.StatusCode, err)
	}
	return fmt.Errorf("%w: archive storage %s: %s: %w", atoll.ErrUnavailable, s.name, what, err)
}

// request calls f with the time that one request may take.
func (s *s3Store) request(ctx context.Context, what string, f func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, partTimeout, fmt.Errorf("%w: no answer after %v", atoll.ErrTimeout, partTimeout))
	defer cancel()
	err := f(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("%w: archive storage %s: %s: %w", atoll.ErrUnavailable, s.name, what, context.Cause(limited))
		return err
	}
	return s.explain(ctx, what, err)
}

// Put stores an object in one request if it is small, else in parts. One part is in memory at a time.
func (s *s3Store) Put(ctx context.Context, key string, content io.Reader) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	part := make([]byte, partSize)
	n, err := readPart(ctx, content, part)
	if err != nil {
		return 0, err
	}
	if n < partSize {
		err := s.request(ctx, "store", func(ctx context.Context) error {
			_, err := s.core.PutObject(ctx, s.bucket, s.prefix+key, bytes.NewReader(part[:n]), int64(n), sum(part[:n]), "", minio.PutObjectOptions{ContentType: contentType})
			return err
		})
		return int64(n), err
	}
	return s.putParts(ctx, key, content, part)
}

const contentType = "application/octet-stream"

// sum returns the checksum of a part that the storage compares.
func sum(part []byte) string {
	d := md5.Sum(part) //nolint:gosec // see the import
	return base64.StdEncoding.EncodeToString(d[:])
}

// readPart fills a part, unless the content ends.
func readPart(ctx context.Context, content io.Reader, part []byte) (n int, err error) {
	for n < len(part) {
		if err := context.Cause(ctx); err != nil {
			return n, err
		}
		k, err := content.Read(part[n:])
		n += k
		if err == io.EOF { //nolint:errorlint // io.Reader's contract: EOF itself is the end
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// putParts stores an object whose first part has been read.
func (s *s3Store) putParts(ctx context.Context, key string, content io.Reader, part []byte) (size int64, err error) {
	var id string
	err = s.request(ctx, "store", func(ctx context.Context) (err error) {
		id, err = s.core.NewMultipartUpload(ctx, s.bucket, s.prefix+key, minio.PutObjectOptions{ContentType: contentType})
		return err
	})
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil && !errors.Is(err, atoll.ErrUnavailable) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
			defer cancel()
			_ = s.core.AbortMultipartUpload(ctx, s.bucket, s.prefix+key, id) // or Delete does
		}
	}()
	var done []minio.CompletePart
	for n := len(part); n > 0; {
		if len(done) == maxParts {
			return 0, fmt.Errorf("%w: an object of more than %d bytes", atoll.ErrUnsupported, int64(maxParts)*partSize)
		}
		var p minio.ObjectPart
		err := s.request(ctx, "store", func(ctx context.Context) (err error) {
			p, err = s.core.PutObjectPart(ctx, s.bucket, s.prefix+key, id, len(done)+1, bytes.NewReader(part[:n]), int64(n), minio.PutObjectPartOptions{Md5Base64: sum(part[:n])})
			return err
		})
		if err != nil {
			return 0, err
		}
		done = append(done, minio.CompletePart{PartNumber: len(done) + 1, ETag: p.ETag})
		size += int64(n)
		if n < len(part) {
			break
		}
		if n, err = readPart(ctx, content, part); err != nil {
			return 0, err
		}
	}
	err = s.request(ctx, "store", func(ctx context.Context) error {
		_, err := s.core.CompleteMultipartUpload(ctx, s.bucket, s.prefix+key, id, done, minio.PutObjectOptions{ContentType: contentType})
		return err
	})
	return size, err
}

// Get opens an object. A download that breaks is continued where it was.
func (s *s3Store) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	d := &download{s: s, key: s.prefix + key, ctx: ctx, cancel: cancel}
	if err := d.open(); err != nil {
		err = s.explain(ctx, "read", err)
		cancel(nil)
		return nil, err
	}
	return d, nil
}

// download reads an object.
type download struct {
	s      *s3Store
	key    string
	ctx    context.Context //nolint:containedctx // the reader lasts as long as the call that opened it
	cancel context.CancelCauseFunc
	etag   string
	size   int64 // of the object
	at     int64 // bytes read
	body   io.ReadCloser
	stop   context.CancelFunc // ends the request of body
	tries  int                // without progress
	broken error              // why the last body ended
	err    error
}

// open begins the download at its position.
func (d *download) open() error {
	o := minio.GetObjectOptions{}
	if d.etag != "" {
		if err := errors.Join(o.SetRange(d.at, d.size-1), o.SetMatchETag(d.etag)); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(d.ctx)
	stall := time.AfterFunc(partTimeout, stop)
	body, info, _, err := d.s.core.GetObject(ctx, d.s.bucket, d.key, o)
	stall.Stop()
	if err != nil {
		stop()
		return err
	}
	if d.etag == "" {
		d.etag, d.size = info.ETag, info.Size
	}
	d.body, d.stop = body, stop
	return nil
}

// Read reads the object.
func (d *download) Read(p []byte) (int, error) {
	for d.err == nil {
		if d.at == d.size {
			d.err = io.EOF
			break
		}
		if d.body == nil {
			if err := d.resume(); err != nil {
				d.err = d.s.explain(d.ctx, "read", err)
				break
			}
		}
		stall := time.AfterFunc(stallTime, d.stop)
		n, err := d.body.Read(p)
		stall.Stop()
		d.at += int64(n)
		if n > 0 {
			d.tries = 0
		}
		if err != nil { // also an end before its time
			d.broken = err
			d.closeBody()
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, d.err
}

// resume begins a broken download again, after a pause.
func (d *download) resume() error {
	for {
		if d.tries == maxResumes {
			return fmt.Errorf("the download broke %d times: %w", d.tries, d.broken)
		}
		d.tries++
		t := time.NewTimer(d.s.pause * time.Duration(d.tries))
		select {
		case <-t.C:
		case <-d.ctx.Done():
			t.Stop()
			return context.Cause(d.ctx)
		}
		err := d.open()
		if err == nil || minio.ToErrorResponse(err).StatusCode/100 == 4 {
			return err
		}
		d.broken = err
	}
}

func (d *download) closeBody() {
	if d.body != nil {
		_ = d.body.Close() // what was read is checked elsewhere
		d.stop()
		d.body = nil
	}
}

// Close ends the download.
func (d *download) Close() error {
	d.closeBody()
	d.cancel(nil)
	if d.err == nil {
		d.err = os.ErrClosed
	}
	return nil
}

// Delete removes an object, and the parts of interrupted uploads to its key.
func (s *s3Store) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	err := s.request(ctx, "delete", func(ctx context.Context) error {
		return s.core.RemoveObject(ctx, s.bucket, s.prefix+key, minio.RemoveObjectOptions{})
	})
	if err != nil && !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	return s.request(ctx, "delete", func(ctx context.Context) error { return s.core.RemoveIncompleteUpload(ctx, s.bucket, s.prefix+key) })
}

// List returns the objects below a prefix.
func (s *s3Store) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for o := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
			if o.Err != nil {
				yield(Object{}, s.explain(ctx, "list", o.Err))
				return
			}
			key := o.Key[min(len(s.prefix), len(o.Key)):]
			if checkKey(key) != nil {
				continue // not ours
			}
			if !yield(Object{Key: key, Size: o.Size, Modified: o.LastModified.UTC()}, nil) {
				return
			}
		}
	}
}

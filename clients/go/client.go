// Package recollect is a client of Recollect, which keeps every conversation of an agent, streams it
// live to whoever watches, and finds it again.
//
// A call that changes something gets a request id if it has none, and keeps it in every attempt: it
// takes effect once. Every failure is an *Error.
package recollect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pb "recollect.example/go/recollectv1"
)

// Client calls a Recollect server: a field for each service, with the calls of the contract. It is
// safe for any number of goroutines. Make it with Connect.
type Client struct {
	// Conversations begins, writes, reads, names and deletes conversations.
	Conversations pb.ConversationServiceClient
	// Recall finds conversations and messages again.
	Recall pb.RecallServiceClient
	// Channels brings messages of any provider to their conversations, and says who is an owner.
	Channels pb.ChannelServiceClient
	// External reads, trusts and answers third parties.
	External pb.ExternalCommunicationServiceClient
	// Insight counts what was written and what it cost.
	Insight pb.InsightServiceClient
	// Checkpoints keeps the state of programs, by thread.
	Checkpoints pb.CheckpointServiceClient
	// Access tells what this client may do.
	Access pb.AccessServiceClient
	// Admin administers the server.
	Admin pb.AdminServiceClient

	wasMet  atomic.Bool // whether the server has answered a call, and be it with a refusal
	conn    *grpc.ClientConn
	retry   RetryPolicy
	timeout time.Duration
	ctx     context.Context // ends when the client is closed
	end     context.CancelFunc
}

// Option changes how a client connects or calls.
type Option func(*options)

type options struct {
	retry        RetryPolicy
	timeout      time.Duration
	token, space string
	ca           string
	cert, key    string
	insecure     bool
	dial         []grpc.DialOption
}

// WithRetry sets how calls are repeated; RetryPolicy{MaxAttempts: 1, Multiplier: 1} never.
func WithRetry(policy RetryPolicy) Option { return func(o *options) { o.retry = policy } }

// WithTimeout bounds calls, with their retries, whose context has no deadline; 0 does not. 30 s by
// default.
func WithTimeout(timeout time.Duration) Option { return func(o *options) { o.timeout = timeout } }

// WithToken sends a token with every call.
func WithToken(token string) Option { return func(o *options) { o.token = token } }

// WithSpace names whose data is meant, where the token is for several spaces or none is needed.
func WithSpace(space string) Option { return func(o *options) { o.space = space } }

// WithCA speaks TLS with servers that an authority signed: a file in PEM, or "system".
func WithCA(file string) Option { return func(o *options) { o.ca = file } }

// WithClientCert presents a certificate: files in PEM.
func WithClientCert(certificate, key string) Option {
	return func(o *options) { o.cert, o.key = certificate, key }
}

// WithInsecure lets a token go over a network in plain text.
func WithInsecure() Option { return func(o *options) { o.insecure = true } }

// WithDialOption adds an option of grpc.Dial.
func WithDialOption(option grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, option) }
}

const maxMessage = 64 << 20

// Connect returns a client of the server at "host:port" or "unix:PATH". It does not wait for a
// connection. What is not given comes from RECOLLECT_TOKEN, RECOLLECT_SPACE, RECOLLECT_CA,
// RECOLLECT_CLIENT_CERT and RECOLLECT_CLIENT_KEY.
func Connect(address string, given ...Option) (*Client, error) {
	o := options{
		retry:   DefaultRetry,
		timeout: 30 * time.Second,
		token:   os.Getenv("RECOLLECT_TOKEN"),
		space:   os.Getenv("RECOLLECT_SPACE"),
		ca:      os.Getenv("RECOLLECT_CA"),
		cert:    os.Getenv("RECOLLECT_CLIENT_CERT"),
		key:     os.Getenv("RECOLLECT_CLIENT_KEY"),
	}
	for _, option := range given {
		option(&o)
	}
	if err := o.check(address); err != nil {
		return nil, err
	}
	transport, err := o.transport()
	if err != nil {
		return nil, err
	}
	client := &Client{retry: o.retry, timeout: o.timeout}
	client.ctx, client.end = context.WithCancel(context.Background())
	headers := o.headers()
	dial := append([]grpc.DialOption{
		transport,
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{}), grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		// A call with its retries must meet a server soon after it is back: gRPC's own pauses (1 s,
		// growing to 2 min) would hide it.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, path string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				ctx = metadata.AppendToOutgoingContext(ctx, headers...)
				return client.unary(ctx, path, request, answer, conn, invoke, opts...)
			}),
		grpc.WithChainStreamInterceptor(
			func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, path string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				ctx = metadata.AppendToOutgoingContext(ctx, headers...)
				return client.stream(ctx, desc, conn, path, open, opts...)
			}),
	}, o.dial...)
	if client.conn, err = grpc.Dial(address, dial...); err != nil {
		return nil, invalid("address", err.Error())
	}
	client.Conversations = pb.NewConversationServiceClient(client.conn)
	client.Recall = pb.NewRecallServiceClient(client.conn)
	client.Channels = pb.NewChannelServiceClient(client.conn)
	client.External = pb.NewExternalCommunicationServiceClient(client.conn)
	client.Insight = pb.NewInsightServiceClient(client.conn)
	client.Checkpoints = pb.NewCheckpointServiceClient(client.conn)
	client.Access = pb.NewAccessServiceClient(client.conn)
	client.Admin = pb.NewAdminServiceClient(client.conn)
	return client, nil
}

// Conn returns the connection, for services that this package does not name: its calls have the
// client's retries, token and errors.
func (c *Client) Conn() *grpc.ClientConn { return c.conn }

// Close ends the client, its running calls and its watches. They fail with ErrClosed.
func (c *Client) Close() error {
	c.end()
	return c.conn.Close()
}

var (
	tokenRule = regexp.MustCompile(`^[!-~]+$`)
	spaceRule = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9_-]{0,63}|[a-z0-9._+-]{0,63}@[a-z0-9][a-z0-9.-]{0,62})$`)
)

func (o *options) check(address string) error {
	if err := o.retry.check(); err != nil {
		return err
	}
	// The value never appears in the error.
	if o.token != "" && !tokenRule.MatchString(o.token) {
		return invalid("token", "is printable ASCII without spaces, and not empty")
	}
	if o.space != "" && !spaceRule.MatchString(o.space) {
		return invalid("space", "is 1 to 64 lower case letters, digits, _ and -, beginning with a letter or digit, or an e-mail address in lower case")
	}
	if (o.cert == "") != (o.key == "") {
		return invalid("WithClientCert", "needs a certificate and its key")
	}
	if o.cert != "" && o.ca == "" {
		return invalid("WithClientCert", "needs TLS: name the authority of the server's certificate with WithCA")
	}
	if o.token != "" && o.ca == "" && !o.insecure && !isLocal(address) {
		return invalid("token", "would go over the network in plain text: use TLS (WithCA), or say WithInsecure")
	}
	return nil
}

// isLocal returns whether an address does not leave the machine.
func isLocal(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func (o *options) transport() (grpc.DialOption, error) {
	if o.ca == "" {
		// Not of the package insecure: releases of grpc-go without it are still in use.
		return grpc.WithInsecure(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.ca != "system" {
		pem, err := os.ReadFile(o.ca)
		if err != nil {
			return nil, invalid("WithCA", err.Error())
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, invalid("WithCA", "names a file without a certificate: "+o.ca)
		}
	}
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, invalid("WithClientCert", err.Error())
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return grpc.WithTransportCredentials(credentials.NewTLS(config)), nil
}

func (o *options) headers() []string {
	var headers []string
	if o.token != "" {
		headers = append(headers, "authorization", "Bearer "+o.token)
	}
	if o.space != "" {
		headers = append(headers, "recollect-space", o.space)
	}
	return headers
}

// codec encodes messages. grpc-go before 1.35 cannot encode those of today's generated code itself.
type codec struct{}

func (codec) Marshal(message any) ([]byte, error) { return proto.Marshal(message.(proto.Message)) }

func (codec) Unmarshal(data []byte, message any) error {
	return proto.Unmarshal(data, message.(proto.Message))
}

func (codec) Name() string { return "proto" }

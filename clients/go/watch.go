package recollect

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "recollect.example/go/recollectv1"
)

// Watch is live updates in order, over as many connections as it takes: one that breaks is made
// again, and goes on where it was. Nothing is missed and nothing comes twice. An update with Reset
// replaces everything that its receiver has: updates were missed for good.
//
// One goroutine calls Next; any may call Close.
type Watch[U any] struct {
	open         func(ctx context.Context, cursor string) (func() ([]*U, error), error)
	about        func(*U) about
	reset        func(*U)
	onConnection func(connected bool, err error)

	client       *Client
	parent       context.Context // the caller's
	ctx          context.Context
	closed       atomic.Bool
	cancel       context.CancelFunc
	cursor       string
	receive      func() ([]*U, error)
	drop         context.CancelFunc // ends the present connection
	taken        []*U
	failures     int
	stands       bool // whether the present connection brought anything
	wasConnected bool
	began        time.Time // of the failures since a connection stood
	hasSnapshot  bool
	err          error
}

type about struct {
	cursor                  string
	isHeartbeat, isSnapshot bool
}

// WatchOption changes a watch.
type WatchOption func(*watchOptions)

type watchOptions struct{ onConnection func(bool, error) }

// OnConnection calls told with true when a connection brings its first element, and with false and
// the reason each time that one breaks or is refused and another is made.
func OnConnection(told func(connected bool, err error)) WatchOption {
	return func(o *watchOptions) { o.onConnection = told }
}

// maxBatch is how many updates an element may bring: those that came while the last one was sent.
const maxBatch = 1000

// Watch watches conversations until the context ends or the watch is closed. Without a cursor it
// begins with a snapshot.
func (c *Client) Watch(ctx context.Context, request *pb.StreamUpdatesRequest, given ...WatchOption) *Watch[pb.Update] {
	asked := proto.Clone(request).(*pb.StreamUpdatesRequest)
	if asked.GetMaxBatch() == 0 {
		asked.MaxBatch = maxBatch
	}
	watch := newWatch[pb.Update](ctx, c, asked.GetCursor(), given)
	watch.open = func(ctx context.Context, cursor string) (func() ([]*pb.Update, error), error) {
		asked.Cursor = cursor
		stream, err := c.Conversations.StreamUpdates(ctx, asked)
		return func() ([]*pb.Update, error) {
			answer, err := stream.Recv()
			return append(one(answer.GetUpdate()), answer.GetFollowing()...), err
		}, err
	}
	watch.about = func(it *pb.Update) about {
		return about{it.GetCursor(), it.GetHeartbeat() != nil, it.GetConversationList() != nil}
	}
	watch.reset = func(it *pb.Update) { it.Reset_ = true }
	return watch
}

// WatchCommunications watches third parties. Without a cursor it begins with a snapshot.
func (c *Client) WatchCommunications(ctx context.Context, request *pb.StreamCommunicationUpdatesRequest, given ...WatchOption) *Watch[pb.CommunicationUpdate] {
	asked := proto.Clone(request).(*pb.StreamCommunicationUpdatesRequest)
	watch := newWatch[pb.CommunicationUpdate](ctx, c, asked.GetCursor(), given)
	watch.open = func(ctx context.Context, cursor string) (func() ([]*pb.CommunicationUpdate, error), error) {
		asked.Cursor = cursor
		stream, err := c.External.StreamCommunicationUpdates(ctx, asked)
		return func() ([]*pb.CommunicationUpdate, error) {
			answer, err := stream.Recv()
			return one(answer.GetUpdate()), err
		}, err
	}
	watch.about = func(it *pb.CommunicationUpdate) about {
		return about{it.GetCursor(), it.GetHeartbeat() != nil, it.GetCommunicationList() != nil}
	}
	watch.reset = func(it *pb.CommunicationUpdate) { it.Reset_ = true }
	return watch
}

func one[U any](update *U) []*U {
	if update == nil {
		return nil
	}
	return []*U{update}
}

func newWatch[U any](ctx context.Context, client *Client, cursor string, given []WatchOption) *Watch[U] {
	o := watchOptions{onConnection: func(bool, error) {}}
	for _, option := range given {
		option(&o)
	}
	watch := &Watch[U]{client: client, cursor: cursor, parent: ctx, hasSnapshot: cursor != "", onConnection: o.onConnection}
	watch.ctx, watch.cancel = context.WithCancel(ctx)
	forget := context.AfterFunc(client.ctx, watch.cancel)
	// A client outlives many watches, and holds none of those that ended.
	context.AfterFunc(watch.ctx, func() { forget() })
	return watch
}

// Cursor returns the position after the newest update that Next returned: another watch with it goes
// on there, also in another process.
func (w *Watch[U]) Cursor() string { return w.cursor }

// Close ends the watch, also for a goroutine that waits in Next: that returns io.EOF.
func (w *Watch[U]) Close() {
	w.closed.Store(true)
	w.cancel()
}

// All returns the updates, for a range loop. A loop that is left closes the watch. It ends with the
// error that another connection would not mend, and without one when the watch is closed.
func (w *Watch[U]) All() iter.Seq2[*U, error] {
	return func(yield func(*U, error) bool) {
		defer w.Close()
		for {
			update, err := w.Next()
			if err == io.EOF {
				return
			}
			if !yield(update, err) || err != nil {
				return
			}
		}
	}
}

// Next returns the next update, as soon as there is one. It returns io.EOF once the watch is closed,
// the context's error once that ended, and an *Error that another connection would not mend: from
// then on always the same.
func (w *Watch[U]) Next() (*U, error) {
	for w.err == nil {
		if w.hasEnded() {
			w.fail(w.ending())
			break
		}
		if len(w.taken) > 0 {
			update := w.taken[0]
			w.taken = w.taken[1:]
			it := w.about(update)
			if it.cursor != "" {
				w.cursor = it.cursor
			}
			if it.isHeartbeat {
				continue
			}
			if it.isSnapshot {
				if w.hasSnapshot {
					// The connection broke within the first snapshot: this one begins anew.
					w.reset(update)
				}
				w.hasSnapshot = true
			}
			return update, nil
		}
		w.take()
	}
	return nil, w.err
}

// hasEnded returns whether nothing more is taken. A client that is closed ends the watch's context a
// moment later.
func (w *Watch[U]) hasEnded() bool { return w.ctx.Err() != nil || w.client.ctx.Err() != nil }

// ending returns why the watch ended.
func (w *Watch[U]) ending() error {
	switch {
	case w.closed.Load():
		return io.EOF
	case w.client.ctx.Err() != nil:
		return closed()
	}
	return w.parent.Err()
}

// take waits for the next element, over a new connection if there is none.
func (w *Watch[U]) take() {
	var err error
	if w.receive == nil {
		ctx, cancel := context.WithCancel(w.ctx)
		if w.receive, err = w.open(ctx, w.cursor); err != nil {
			cancel()
			w.broken(err)
			return
		}
		w.drop, w.stands = cancel, false
	}
	if w.taken, err = w.receive(); err != nil {
		w.drop()
		w.broken(err)
		return
	}
	w.failures = 0
	w.client.wasMet.Store(true)
	if !w.stands {
		w.onConnection(true, nil)
	}
	w.stands, w.wasConnected = true, true
}

// broken waits before another connection is made, or ends the watch.
func (w *Watch[U]) broken(err error) {
	w.receive, w.taken = nil, nil
	if w.hasEnded() {
		return
	}
	w.failures++
	if w.failures == 1 {
		w.began = time.Now()
	}
	var asked time.Duration
	if !errors.Is(err, io.EOF) {
		failed := asError(w.ctx, err)
		if !w.isTransient(failed) {
			w.fail(failed)
			return
		}
		asked = failed.RetryAfter
	}
	w.onConnection(false, err)
	w.client.pause(w.ctx, w.client.retry.delay(w.failures, asked))
}

// isTransient returns whether another connection may do better. The first one is tried as often and
// as long as any call; one that was there once is made again for as long as it takes.
func (w *Watch[U]) isTransient(failed *Error) bool {
	if w.client.retry.MaxAttempts == 1 {
		return false
	}
	switch failed.Code {
	case codes.Unavailable, codes.Canceled, codes.ResourceExhausted:
	case codes.Internal, codes.Unknown:
		// A connection that broke in the middle of something. A fault of the server brings a reason.
		if failed.RawReason != "" {
			return false
		}
	default:
		return false
	}
	if w.client.isAwaited(failed) && time.Since(w.began) < w.client.timeout {
		return true
	}
	return w.wasConnected || w.failures < w.client.retry.MaxAttempts
}

func (w *Watch[U]) fail(err error) {
	w.err = err
	w.cancel()
}

// stream opens a stream whose errors are *Error.
func (c *Client) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, path string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.ctx.Err() != nil {
		return nil, closed()
	}
	stream, err := open(ctx, desc, conn, path, opts...)
	if err != nil {
		return nil, asError(ctx, err)
	}
	return &streamWithErrors{stream, c}, nil
}

type streamWithErrors struct {
	grpc.ClientStream
	client *Client
}

// RecvMsg receives the next element. It returns io.EOF at the end, else an *Error.
func (s *streamWithErrors) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case s.client.ctx.Err() != nil:
		return closed()
	}
	return asError(s.Context(), err)
}

package recollect

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	mathrand "math/rand"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// RetryPolicy says how often a failed call is sent, and how long the client waits between two
// attempts: exponential back-off with full jitter. Only what is safe is repeated: a call that changes
// nothing, or one with a request id, which the client adds where the caller gives none. The time-out
// bounds the call as a whole.
//
// A server that has answered this client before and is gone is being started again, most likely:
// attempts that meet no server do not count then, and go on until the time-out. A call without one
// does not wait.
type RetryPolicy struct {
	// MaxAttempts is the most times that a call is sent, the first time included. 1 never repeats.
	MaxAttempts int
	// InitialDelay is the longest wait before the second attempt.
	InitialDelay time.Duration
	// Multiplier is the factor by which each wait may be longer than the one before.
	Multiplier float64
	// MaxDelay is the longest wait, unless the server asks for more.
	MaxDelay time.Duration
	// FailsFast has a server that answered before looked for MaxAttempts times, as any other.
	FailsFast bool
}

// longestPause lies between two looks for a server that is away: it should be met soon after it is back.
const longestPause = time.Second

// longestReserve lies at the end of a time-out, in which no attempt begins: its answer would be cut off,
// and the error would not say what the attempts before it met.
const longestReserve = time.Second

// DefaultRetry is the policy of a client that is given none.
var DefaultRetry = RetryPolicy{MaxAttempts: 6, InitialDelay: 100 * time.Millisecond, Multiplier: 2, MaxDelay: 5 * time.Second}

func (p RetryPolicy) check() error {
	if p.MaxAttempts < 1 {
		return invalid("MaxAttempts", "is at least 1")
	}
	if p.InitialDelay < 0 || p.MaxDelay < 0 || p.Multiplier < 1 {
		return invalid("RetryPolicy", "needs delays that are not negative and a multiplier of at least 1")
	}
	return nil
}

// delay returns how long to wait after so many failures, never less than the server asked for.
func (p RetryPolicy) delay(failures int, asked time.Duration) time.Duration {
	longest := float64(p.InitialDelay)
	for ; failures > 1 && longest < float64(p.MaxDelay); failures-- {
		longest *= p.Multiplier
	}
	return max(asked, 0) + time.Duration(mathrand.Float64()*min(longest, float64(p.MaxDelay)))
}

// isWorthRepeating returns whether the server names a delay after which it may accept the call, or
// another attempt may meet it: Unavailable says so; Cancelled, where the caller did not, is how a
// server refuses a burst of calls.
func (e *Error) isWorthRepeating() bool {
	return e.RetryAfter >= 0 || e.Code == codes.Unavailable || e.Code == codes.Canceled
}

// isAwaited returns whether to wait after a failure for a server that is started again.
func (c *Client) isAwaited(failed *Error) bool {
	isAway := failed.Code == codes.Unavailable && failed.RawReason == "" && failed.RetryAfter < 0
	return isAway && c.wasMet.Load() && c.retry.MaxAttempts > 1 && !c.retry.FailsFast
}

// pause waits, until the context or the client ends at the latest.
func (c *Client) pause(ctx context.Context, delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
}

// unary makes every unary call: with a time-out, a request id, and as many attempts as the policy
// allows.
func (c *Client) unary(ctx context.Context, path string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if c.ctx.Err() != nil {
		return closed()
	}
	if _, ok := ctx.Deadline(); !ok && c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	if field := invalidText(request.(proto.Message).ProtoReflect(), ""); field != "" {
		return invalid(field, "holds bytes that are no UTF-8")
	}
	message, named := withRequestID(path, request.(proto.Message))
	repeatable := named || readsOnly(path)
	deadline, isBounded := ctx.Deadline()
	reserve := min(longestReserve, time.Until(deadline)/10)
	for failures, awaited := 1, 0; ; failures++ {
		err := invoke(ctx, path, message, answer, conn, opts...)
		if err == nil {
			c.wasMet.Store(true)
			return nil
		}
		if c.ctx.Err() != nil {
			return closed()
		}
		failed := asError(ctx, err)
		if failed.RawReason != "" {
			c.wasMet.Store(true)
		}
		if !repeatable || ctx.Err() != nil || !failed.isWorthRepeating() {
			return failed
		}
		delay := c.retry.delay(failures, failed.RetryAfter)
		if isBounded && c.isAwaited(failed) {
			awaited++
			delay = min(delay, longestPause)
		} else if failures-awaited >= c.retry.MaxAttempts {
			return failed
		}
		if isBounded && time.Until(deadline)-reserve <= delay {
			return failed
		}
		c.pause(ctx, delay)
		switch {
		case c.ctx.Err() != nil:
			return closed()
		case ctx.Err() != nil:
			return asError(ctx, status.FromContextError(ctx.Err()).Err())
		}
	}
}

// invalidText returns the path of a text that is no UTF-8, as a text that was cut within a character;
// empty if there is none. Encoding the message would fail only once there is a connection, as a fault
// of the server.
func invalidText(message protoreflect.Message, path string) string {
	wrong := ""
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		place := path + string(field.Name())
		check := func(value protoreflect.Value, place string) bool {
			switch {
			case field.Kind() == protoreflect.StringKind && !utf8.ValidString(value.String()):
				wrong = place
			case field.Kind() != protoreflect.MessageKind:
			case field.Message().FullName() == "google.protobuf.Struct":
				if _, err := proto.Marshal(value.Message().Interface()); err != nil {
					wrong = place
				}
			default:
				wrong = invalidText(value.Message(), place+".")
			}
			return wrong == ""
		}
		switch {
		case field.IsList():
			for i, list := 0, value.List(); i < list.Len() && check(list.Get(i), fmt.Sprintf("%s[%d]", place, i)); i++ {
			}
		case !field.IsMap(): // requests have none with texts for values
			check(value, place)
		}
		return wrong == ""
	})
	return wrong
}

func closed() error {
	return &Error{Code: codes.Canceled, Message: ErrClosed.Error(), RetryAfter: -1, cause: ErrClosed}
}

// withRequestID returns the request with an id, and whether the call has one. The caller's message is
// left as it is.
func withRequestID(path string, request proto.Message) (proto.Message, bool) {
	reflected := request.ProtoReflect()
	field := reflected.Descriptor().Fields().ByName("request_id")
	if field == nil || field.Kind() != protoreflect.StringKind {
		return request, false
	}
	if reflected.Get(field).String() != "" {
		return request, true
	}
	named := proto.Clone(request)
	named.ProtoReflect().Set(field, protoreflect.ValueOfString(newRequestID()))
	return named, true
}

func newRequestID() string {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		panic(err)
	}
	return hex.EncodeToString(random[:])
}

var reading sync.Map // whether a method changes nothing, by its path

// readsOnly returns whether the contract says that a call changes nothing.
func readsOnly(path string) bool {
	if known, ok := reading.Load(path); ok {
		return known.(bool)
	}
	reads := path == "/grpc.health.v1.Health/Check"
	if method := methodOf(path); method != nil {
		options, _ := method.Options().(*descriptorpb.MethodOptions)
		reads = options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
	}
	reading.Store(path, reads)
	return reads
}

func findMethod(service protoreflect.FullName, name protoreflect.Name) protoreflect.MethodDescriptor {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(service)
	if err != nil {
		return nil
	}
	described, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil
	}
	return described.Methods().ByName(name)
}

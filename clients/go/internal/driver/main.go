// Command driver does with a client what the tests in Python say, a line of JSON each, and answers
// with a line each.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	recollect "recollect.example/go"
	"recollect.example/go/internal/dynamic"
	pb "recollect.example/go/recollectv1"
)

type command struct {
	Connect   *string
	Options   settings
	Trace     string // that the calls are in
	Call      string
	Watch     bool
	TimeoutMs int // the deadline of the watch's context
	Request   json.RawMessage
	Until     string // take updates of the watch until one of this kind came
	Close     bool
	// CancelAfterMs cancels the call while it runs.
	CancelAfterMs int
	// CloseAfterMs closes the client while the command runs.
	CloseAfterMs int
	Connections  bool // answer what the watch told of its connections
}

type settings struct {
	Token, Space, CA string
	TimeoutMs        int
	Retry            struct {
		MaxAttempts int
		FailsFast   bool
	}
	Env              map[string]string
	Gzip             bool // compress requests
	PingMs           int  // the pause between pings
}

var (
	client   *recollect.Client
	watch    *recollect.Watch[pb.Update]
	told     []bool
	trace    string
	endWatch context.CancelFunc // of the watch's deadline, which the process outlives
)

func connect(address string, given settings) error {
	retry := recollect.DefaultRetry
	retry.InitialDelay, retry.MaxDelay = time.Millisecond, 50*time.Millisecond
	retry.FailsFast = given.Retry.FailsFast
	if given.Retry.MaxAttempts > 0 {
		retry.MaxAttempts = given.Retry.MaxAttempts
	}
	options := []recollect.Option{recollect.WithRetry(retry)}
	if given.TimeoutMs > 0 {
		options = append(options, recollect.WithTimeout(time.Duration(given.TimeoutMs)*time.Millisecond))
	}
	if given.Token != "" {
		options = append(options, recollect.WithToken(given.Token))
	}
	if given.Space != "" {
		options = append(options, recollect.WithSpace(given.Space))
	}
	if given.CA != "" {
		options = append(options, recollect.WithCA(given.CA))
	}
	if given.Gzip {
		options = append(options, recollect.WithDialOption(grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name))))
	}
	if given.PingMs > 0 {
		pings := keepalive.ClientParameters{Time: time.Duration(given.PingMs) * time.Millisecond, Timeout: 5 * time.Second}
		options = append(options, recollect.WithDialOption(grpc.WithKeepaliveParams(pings)))
	}
	for name, value := range given.Env {
		os.Setenv(name, value)
		defer os.Unsetenv(name)
	}
	var err error
	client, err = recollect.Connect(address, options...)
	return err
}

func do(it command) (any, error) {
	if it.Close {
		client.Close()
	}
	if it.Connect != nil {
		trace = it.Trace
		if err := connect(*it.Connect, it.Options); err != nil {
			return nil, err
		}
	}
	if it.CloseAfterMs > 0 {
		closing := client
		time.AfterFunc(time.Duration(it.CloseAfterMs)*time.Millisecond, func() { closing.Close() })
	}
	if it.Call != "" {
		method := dynamic.MethodOf(it.Call)
		request, err := method.Request(it.Request)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if trace != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", trace)
		}
		if it.CancelAfterMs > 0 {
			time.AfterFunc(time.Duration(it.CancelAfterMs)*time.Millisecond, cancel)
		}
		answer, err := method.Call(ctx, client.Conn(), request)
		if err != nil {
			return nil, err
		}
		return dynamic.JSON(answer), nil
	}
	if it.Connections {
		return told, nil
	}
	if it.Watch {
		told = nil
		request, err := dynamic.MethodOf("ConversationService/StreamUpdates").Request(it.Request)
		if err != nil {
			return nil, err
		}
		ctx := context.Background()
		if it.TimeoutMs > 0 {
			ctx, endWatch = context.WithTimeout(ctx, time.Duration(it.TimeoutMs)*time.Millisecond)
		}
		watch = client.Watch(ctx, request.(*pb.StreamUpdatesRequest),
			recollect.OnConnection(func(connected bool, _ error) { told = append(told, connected) }))
	}
	updates := []any{}
	for it.Until != "" && watch != nil {
		update, err := watch.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		updates = append(updates, dynamic.JSON(update))
		if kind(update) == it.Until {
			break
		}
	}
	return updates, nil
}

// kind returns the kind of an update as TypeScript's generated code names it.
func kind(update proto.Message) string {
	reflected := update.ProtoReflect()
	set := reflected.WhichOneof(reflected.Descriptor().Oneofs().ByName("kind"))
	if set == nil {
		return ""
	}
	return set.JSONName()
}

func failure(failed *recollect.Error) any {
	violations := []any{}
	for _, it := range failed.Violations {
		violations = append(violations, map[string]string{"field": it.Field, "description": it.Description})
	}
	answer := map[string]any{
		"name": "RecollectError", "message": failed.Message, "code": recollect.CodeName(failed.Code),
		"reason": nil, "rawReason": nil, "metadata": failed.Metadata, "violations": violations, "retryAfterMs": nil,
	}
	if failed.Reason != pb.ErrorReason_ERROR_REASON_UNSPECIFIED {
		answer["reason"] = failed.Reason.String()[len("ERROR_REASON_"):]
	}
	if failed.RawReason != "" {
		answer["rawReason"] = failed.RawReason
	}
	if failed.RetryAfter >= 0 {
		answer["retryAfterMs"] = failed.RetryAfter.Milliseconds()
	}
	return answer
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var it command
		if err := json.Unmarshal(lines.Bytes(), &it); err != nil {
			panic(err)
		}
		answer, err := do(it)
		line := map[string]any{"answer": answer}
		var failed *recollect.Error
		switch {
		case errors.As(err, &failed):
			line = map[string]any{"error": failure(failed)}
		case errors.Is(err, context.DeadlineExceeded):
			line = map[string]any{"error": map[string]any{"name": "TimeoutError"}}
		case err != nil:
			panic(err)
		}
		text, err := json.Marshal(line)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}

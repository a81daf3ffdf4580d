package recollect

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	pb "recollect.example/go/recollectv1"
)

type key struct{}

func TestAClientHoldsNoWatchThatEnded(t *testing.T) {
	client, err := Connect("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	freed := make(chan struct{})
	func() {
		held := new([1 << 16]byte)
		runtime.SetFinalizer(held, func(any) { close(freed) })
		ctx := context.WithValue(context.Background(), key{}, held)
		client.Watch(ctx, &pb.StreamUpdatesRequest{}).Close()
	}()
	for end := time.After(10 * time.Second); ; {
		runtime.GC()
		select {
		case <-freed:
			return
		case <-end:
			t.Fatal("the context of a closed watch is still in memory")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestACallCancelledBetweenItsAttemptsSaysSo(t *testing.T) {
	retry := RetryPolicy{MaxAttempts: 9, InitialDelay: 100 * time.Hour, Multiplier: 1, MaxDelay: 100 * time.Hour}
	client, err := Connect("127.0.0.1:1", WithRetry(retry), WithTimeout(0)) // nobody listens there
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, cancel)
	_, err = client.Conversations.Get(ctx, &pb.GetRequest{})
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != codes.Canceled || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v is not the end of the caller's context", err)
	}
}

func TestATextThatIsNoUTF8IsRefusedByItsField(t *testing.T) {
	client, err := Connect("127.0.0.1:1") // nothing is sent
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	half := "a\xf0\x9f"
	metadata := &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewStringValue(half)}}
	for field, message := range map[string]*pb.Message{
		"messages[1].content":                 {Content: half},
		"messages[1].metadata":                {Metadata: metadata},
		"messages[1].tool_calls[0].arguments": {ToolCalls: []*pb.ToolCall{{Id: "1", Arguments: half}}},
	} {
		_, err = client.Conversations.AppendTurn(context.Background(), &pb.AppendTurnRequest{
			Messages: []*pb.Message{{Content: "😀"}, message},
		})
		var failed *Error
		if !errors.As(err, &failed) || failed.Code != codes.InvalidArgument || len(failed.Violations) != 1 || failed.Violations[0].Field != field {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

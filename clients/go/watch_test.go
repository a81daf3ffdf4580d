package recollect

import (
	"context"
	"runtime"
	"testing"
	"time"

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

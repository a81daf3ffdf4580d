package recollect

import (
	"context"
	"net"
	"testing"
	"time"

	pb "recollect.example/go/recollectv1"
)

func TestAServerThatIsAwayIsLookedForTwiceASecond(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	moments := make(chan time.Time, 1000)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				close(moments)
				return
			}
			moments <- time.Now()
			connection.Close()
		}
	}()
	client, err := Connect(listener.Addr().String(), WithRetry(RetryPolicy{MaxAttempts: 1, Multiplier: 1}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err := client.Conversations.Get(context.Background(), &pb.GetRequest{}); err == nil {
			t.Fatal("nobody answers there")
		}
	}
	listener.Close()
	var last time.Time
	for moment := range moments {
		if pause := moment.Sub(last); !last.IsZero() && pause > 900*time.Millisecond {
			t.Fatalf("it was not looked for within %v", pause)
		}
		last = moment
	}
	if last.IsZero() {
		t.Fatal("it was never looked for")
	}
}

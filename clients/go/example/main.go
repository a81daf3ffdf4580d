// Command example begins a conversation, writes to it, watches what comes back, and finds it again.
// It takes the address of a server, 127.0.0.1:50051 by default.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	recollect "recollect.example/go"
	pb "recollect.example/go/recollectv1"
)

func main() {
	address := "127.0.0.1:50051"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	client, err := recollect.Connect(address)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	made, err := client.Conversations.Create(ctx, &pb.CreateRequest{Channel: "web"})
	if err != nil {
		log.Fatal(err)
	}
	id := made.Conversation.Id

	watch := client.Watch(ctx, &pb.StreamUpdatesRequest{ConversationIds: []string{id}})
	go func() {
		messages := []*pb.Message{
			{Role: pb.Role_ROLE_USER, Content: "Why is the disk of the build server full?"},
			{Role: pb.Role_ROLE_ASSISTANT, Content: "Old images: 212 GB of them. I can remove those older than a week."},
		}
		if _, err := client.Conversations.AppendTurn(ctx, &pb.AppendTurnRequest{ConversationId: id, Messages: messages}); err != nil {
			log.Fatal(err)
		}
	}()
	for seen := 0; seen < 2; {
		update, err := watch.Next()
		if err != nil {
			log.Fatal(err)
		}
		messages := update.GetConversationUpdated().GetMessages()
		if loaded := update.GetConversationLoaded(); loaded != nil {
			messages = loaded.GetMessages()
		}
		for _, message := range messages {
			fmt.Printf("turn %d, %s: %s\n", message.TurnNumber, message.Role, message.Content)
			seen++
		}
	}
	watch.Close()

	found, err := client.Recall.Search(ctx, &pb.SearchRequest{Query: "build server disk", Limit: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("found:", found.Results[0].ConversationId == id)

	_, err = client.Conversations.Get(ctx, &pb.GetRequest{ConversationId: "conv-01HQ0000000000000000000000"})
	var failed *recollect.Error
	if errors.As(err, &failed) && failed.Reason == pb.ErrorReason_ERROR_REASON_CONVERSATION_NOT_FOUND {
		fmt.Println("not there:", failed.Metadata["conversation_id"])
	}
}

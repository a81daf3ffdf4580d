// Package dynamic makes calls that are named by texts, for the programs that tests run.
package dynamic

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Method is a method of the contract.
type Method struct {
	Path          string
	IsStream      bool
	input, output protoreflect.FullName
}

// MethodOf returns a method by its name, as in "RecallService/Search".
func MethodOf(name string) Method {
	service, method, _ := strings.Cut(name, "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("recollect.v1." + service))
	if err != nil {
		panic(err)
	}
	it := found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(method))
	if it == nil {
		panic(fmt.Sprintf("the generated code has no %s: run scripts/generate", name))
	}
	path := fmt.Sprintf("/recollect.v1.%s/%s", service, method)
	return Method{path, it.IsStreamingServer(), it.Input().FullName(), it.Output().FullName()}
}

// Request returns the request that a text in protobuf JSON is.
func (m Method) Request(text []byte) (proto.Message, error) {
	request := made(m.input)
	if len(text) == 0 {
		return request, nil
	}
	return request, protojson.Unmarshal(text, request)
}

// Call makes a unary call and returns its answer.
func (m Method) Call(ctx context.Context, conn *grpc.ClientConn, request proto.Message) (proto.Message, error) {
	answer := made(m.output)
	return answer, conn.Invoke(ctx, m.Path, request, answer)
}

// Open begins a streaming call and returns what receives its next element.
func (m Method) Open(ctx context.Context, conn *grpc.ClientConn, request proto.Message) (func() (proto.Message, error), error) {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, m.Path)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(request); err != nil {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	return func() (proto.Message, error) {
		answer := made(m.output)
		return answer, stream.RecvMsg(answer)
	}, nil
}

// JSON returns a message as protobuf JSON with the names of the .proto files.
func JSON(message proto.Message) any {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
	if err != nil {
		panic(err)
	}
	return Parsed(text)
}

// Parsed returns what a text in JSON says; numbers keep their digits.
func Parsed(text []byte) any {
	var value any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		panic(err)
	}
	return value
}

func made(name protoreflect.FullName) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		panic(err)
	}
	return kind.New().Interface()
}

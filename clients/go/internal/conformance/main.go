// Command conformance runs the cases of tests/conformance against a server: conformance ADDRESS
// FILE.json … It exits with 0 if every case passed. tests/conformance/README.md defines the format.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	recollect "recollect.example/go"
	"recollect.example/go/internal/dynamic"
)

const timeout = time.Minute

type object = map[string]any

// begun is a call that was begun: its answer, or the next element of its stream.
type begun struct {
	next   func() (object, error)
	cancel context.CancelFunc
}

// differs says where an outcome is not what a case expects.
type differs struct{ field, what string }

func (d differs) Error() string { return d.field + ": " + d.what }

// run does one step after the other. It returns the number of the first that differs, and how.
func run(steps []any, client *recollect.Client) (number int, failed *differs) {
	var random [16]byte
	_, _ = rand.Read(random[:])
	values := object{"case": "x" + hex.EncodeToString(random[:])[:12]}
	streams := map[string]begun{}
	defer func() {
		for _, it := range streams {
			it.cancel()
		}
	}()
	for _, each := range steps {
		number++
		step := each.(object)
		if name, ok := step["close"].(string); ok {
			streams[name].cancel()
			delete(streams, name)
			continue
		}
		call := begun{}
		if rpc, ok := step["rpc"].(string); ok {
			call = begin(client, rpc, filled(step["request"], values))
		} else {
			call = streams[step["read"].(string)]
		}
		if name, ok := step["open"].(string); ok {
			streams[name] = call
			continue
		}
		answer, err := call.next()
		expected, _ := filled(step["expect"], values).(object)
		if failed = check(expected, answer, err); failed != nil {
			return number, failed
		}
		saved, _ := step["save"].(object)
		for name, path := range saved {
			values[name] = at(answer, path.(string))
		}
	}
	return 0, nil
}

// at returns a part of an answer by its path, as in "messages.0.sequence".
func at(value any, path string) any {
	for _, part := range strings.Split(path, ".") {
		switch it := value.(type) {
		case object:
			value = it[part]
		case []any:
			place, err := strconv.Atoi(part)
			if err != nil || place >= len(it) {
				return nil
			}
			value = it[place]
		default:
			return nil
		}
	}
	return value
}

func begin(client *recollect.Client, rpc string, request any) begun {
	method := dynamic.MethodOf(rpc)
	text, err := json.Marshal(request)
	if err != nil || request == nil {
		text = nil
	}
	message, err := method.Request(text)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", rpc, err))
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	if !method.IsStream {
		return begun{func() (object, error) {
			answer, err := method.Call(ctx, client.Conn(), message)
			return read(answer, err)
		}, cancel}
	}
	receive, err := method.Open(ctx, client.Conn(), message)
	return begun{func() (object, error) {
		for {
			if err != nil {
				return nil, err
			}
			answer, err := read(receive())
			update, _ := answer["update"].(object)
			if _, isHeartbeat := update["heartbeat"]; !isHeartbeat {
				return answer, err
			}
		}
	}, cancel}
}

func read(answer proto.Message, err error) (object, error) {
	if err != nil {
		return nil, err
	}
	return dynamic.JSON(answer).(object), nil
}

func check(expected, answer object, err error) *differs {
	var failed *recollect.Error
	if err != nil && !errors.As(err, &failed) {
		panic(err)
	}
	wanted, wantsError := expected["error"].(object)
	switch {
	case wantsError && failed == nil:
		return &differs{"error", fmt.Sprintf("the call was answered: %v", answer)}
	case wantsError:
		if code := nameOf(failed); code != wanted["code"] {
			return &differs{"error.code", fmt.Sprintf("%s (%s)", code, failed.Message)}
		}
		if failed.Reason.String() != wanted["reason"] {
			return &differs{"error.reason", failed.RawReason}
		}
		if fields, ok := wanted["fields"].([]any); ok {
			var named, expected []string
			for _, it := range failed.Violations {
				named = append(named, it.Field)
			}
			for _, it := range fields {
				expected = append(expected, it.(string))
			}
			slices.Sort(named)
			slices.Sort(expected)
			if !slices.Equal(named, expected) {
				return &differs{"error.fields", strings.Join(named, ", ")}
			}
		}
		metadata := object{}
		for key, value := range failed.Metadata {
			metadata[key] = value
		}
		if pattern, ok := wanted["metadata"]; ok {
			return compare(pattern, metadata, "error.metadata")
		}
	case failed != nil:
		return &differs{"error", fmt.Sprintf("%s: %s", nameOf(failed), failed.Message)}
	default:
		if pattern, ok := expected["answer"]; ok {
			return compare(pattern, answer, "")
		}
	}
	return nil
}

// nameOf returns the name of an error's code in the form that the cases use: NOT_FOUND.
func nameOf(failed *recollect.Error) string { return recollect.CodeName(failed.Code) }

func compare(pattern, value any, path string) *differs {
	unlike := &differs{path, fmt.Sprintf("%v, not %v", value, pattern)}
	inner := func(key string) string { return strings.TrimPrefix(path+"."+key, ".") }
	switch it := pattern.(type) {
	case nil:
		if value != nil {
			return unlike
		}
	case []any:
		list, _ := value.([]any)
		if len(list) != len(it) {
			return unlike
		}
		for place, part := range it {
			if failed := compare(part, list[place], inner(strconv.Itoa(place))); failed != nil {
				return failed
			}
		}
	case object:
		if holds, ok := operate(it, value); ok {
			if !holds {
				return unlike
			}
			return nil
		}
		object, ok := value.(object)
		if !ok {
			return unlike
		}
		for key, part := range it {
			if failed := compare(part, object[key], inner(key)); failed != nil {
				return failed
			}
		}
	case json.Number:
		if number(value) != number(it) {
			return unlike
		}
	case bool:
		if truth, _ := value.(bool); truth != it {
			return unlike
		}
	case string:
		if text, isText := value.(string); text != it || (value != nil && !isText) {
			return unlike
		}
	}
	return nil
}

// operate returns whether an operator holds; false, false for an object that is none.
func operate(pattern object, value any) (holds, isOperator bool) {
	list, _ := value.([]any)
	for operator, operand := range pattern {
		switch operator {
		case "$matches":
			text, _ := value.(string)
			return regexp.MustCompile(operand.(string)).MatchString(text), true
		case "$contains":
			for _, part := range operand.([]any) {
				if !slices.ContainsFunc(list, func(it any) bool { return compare(part, it, "") == nil }) {
					return false, true
				}
			}
			return true, true
		case "$size":
			return float64(len(list)) == number(operand), true
		case "$above":
			return number(value) > number(operand), true
		}
	}
	return false, false
}

func number(value any) float64 {
	digits := ""
	switch it := value.(type) {
	case nil:
		return 0
	case json.Number:
		digits = it.String()
	case string:
		digits = it
	}
	parsed, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return -1
	}
	return parsed
}

var (
	reference = regexp.MustCompile(`\$\{(\w+)\}`)
	whole     = regexp.MustCompile(`^\$\{(\w+)\}$`)
)

// filled returns the value with its references and repetitions replaced.
func filled(value any, values object) any {
	switch it := value.(type) {
	case string:
		if name := whole.FindStringSubmatch(it); name != nil {
			return values[name[1]]
		}
		return reference.ReplaceAllStringFunc(it, func(name string) string {
			return fmt.Sprint(values[name[2:len(name)-1]])
		})
	case []any:
		list := make([]any, len(it))
		for place, part := range it {
			list[place] = filled(part, values)
		}
		return list
	case object:
		if repeated, ok := it["$repeat"].([]any); ok {
			times := int(number(filled(repeated[1], values)))
			part := filled(repeated[0], values)
			if text, ok := part.(string); ok {
				return strings.Repeat(text, times)
			}
			return slices.Repeat(part.([]any), times)
		}
		made := object{}
		for key, part := range it {
			made[key] = filled(part, values)
		}
		return made
	}
	return value
}

func main() {
	// No retries: a case counts what each call does.
	client, err := recollect.Connect(os.Args[1], recollect.WithRetry(recollect.RetryPolicy{MaxAttempts: 1, Multiplier: 1}))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	wrong := 0
	for _, file := range os.Args[2:] {
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		for _, each := range dynamic.Parsed(text).(object)["cases"].([]any) {
			it := each.(object)
			steps := it["steps"].([]any)
			number, failed := run(steps, client)
			fails, mustFail := it["fails"].(string)
			isGood := failed == nil
			if mustFail {
				isGood = failed != nil && failed.field == fails && number == len(steps)
			}
			switch {
			case isGood:
				fmt.Printf("ok     %s: %s\n", name, it["name"])
				continue
			case failed != nil:
				fmt.Printf("WRONG  %s: %s: step %d: %s\n", name, it["name"], number, failed)
			default:
				fmt.Printf("WRONG  %s: %s: passed\n", name, it["name"])
			}
			wrong++
		}
	}
	if wrong > 0 {
		client.Close()
		os.Exit(1)
	}
}

package kafkatests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"
)

// control is http://HOST:PORT of the control API of the process that serves all tests.
var control string

// TestMain runs the tests beside a process of the command kohort, which is found by the PATH.
func TestMain(m *testing.M) {
	os.Exit(withProcess(m.Run))
}

func withProcess(run func() int) int {
	process := exec.Command("kohort", "serve", "--dev", "--memory",
		"--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")
	log, writer, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	process.Stdout, process.Stderr = writer, writer
	if err := process.Start(); err != nil {
		panic(err)
	}
	defer process.Wait()
	defer process.Process.Signal(os.Interrupt)
	writer.Close()
	// Until it listens, its log may say why it does not.
	found, lines := regexp.MustCompile(` control=(\S+)`), bufio.NewScanner(log)
	for control == "" && lines.Scan() {
		fmt.Fprintln(os.Stderr, lines.Text())
		if match := found.FindStringSubmatch(lines.Text()); match != nil {
			control = "http://" + match[1]
		}
	}
	if control == "" {
		fmt.Fprintln(os.Stderr, "kohort serve ended")
		return 1
	}
	go func() {
		for lines.Scan() {
		}
	}()
	return run()
}

// Kafka is the broker of one test.
type Kafka struct {
	t         *testing.T
	url       string
	Bootstrap string
}

// Group is what a test sees of a consumer group.
type Group struct {
	State      string
	Generation int
	Members    []struct {
		MemberID   string `json:"member_id"`
		Assignment []string
	}
	Committed  map[string]int
	Rebalances []struct{ Cause string }
}

type object = map[string]any

// startKafka starts a broker, which is stopped after the test. Unmet faults fail the test.
func startKafka(t *testing.T) *Kafka {
	started := struct{ Broker, Bootstrap string }{}
	kafka := &Kafka{t: t, url: control}
	kafka.call("POST", "/brokers", nil, &started)
	kafka.url, kafka.Bootstrap = control+"/brokers/"+started.Broker, started.Bootstrap
	t.Cleanup(func() {
		if !t.Failed() {
			kafka.call("POST", "/faults/verify", nil, nil)
		}
		kafka.call("DELETE", "", nil, nil)
	})
	return kafka
}

func (k *Kafka) call(method, path string, arguments object, result any) {
	k.t.Helper()
	body, err := json.Marshal(arguments)
	if arguments == nil {
		body = nil
	}
	request, err := http.NewRequest(method, k.url+path, bytes.NewReader(body))
	if err != nil {
		k.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		k.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		failed := struct{ Error string }{}
		_ = json.NewDecoder(response.Body).Decode(&failed)
		k.t.Fatalf("%s: %s", path, failed.Error)
	}
	if result == nil {
		return
	}
	if err := json.NewDecoder(response.Body).Decode(result); err != nil {
		k.t.Fatal(err)
	}
}

// Topic creates a topic.
func (k *Kafka) Topic(name string, partitions int) {
	k.call("POST", "/topics", object{"name": name, "partitions": partitions}, nil)
}

// Produce appends records to partition 0.
func (k *Kafka) Produce(topic string, values ...[]byte) {
	k.call("POST", "/topics/"+topic+"/records", object{"values": values}, nil)
}

// Commit commits offsets of a group without members.
func (k *Kafka) Commit(group string, offsets map[string]int) {
	k.call("POST", "/groups/"+group+"/commit", object{"offsets": offsets}, nil)
}

// Group reads a group.
func (k *Kafka) Group(group string) (read Group) {
	k.call("GET", "/groups/"+group, nil, &read)
	return read
}

// Wait waits until a group has this state and number of members.
func (k *Kafka) Wait(group, state string, members int) (read Group) {
	k.t.Helper()
	condition := object{"state": state, "members": members, "timeout": time.Minute.Seconds()}
	k.call("POST", "/groups/"+group+"/wait", condition, &read)
	return read
}

// Kill cuts the connection of a member, now and whenever it connects again.
func (k *Kafka) Kill(memberID string) {
	k.call("POST", "/kill", object{"member_id": memberID}, nil)
}

// LetKilledLeave lets killed members leave, so that their clients close without waiting.
func (k *Kafka) LetKilledLeave() {
	k.call("POST", "/let_killed_leave", nil, nil)
}

// Advance lets so much of the broker's time pass now.
func (k *Kafka) Advance(by time.Duration) {
	k.call("POST", "/advance", object{"seconds": by.Seconds()}, nil)
}

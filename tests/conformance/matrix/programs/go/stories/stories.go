// Package stories has what the Go programs have in common: stories are read, steps taken one after the other, what was
// seen is printed.
package stories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Patience is for anything that is waited for in a step.
const Patience = 30 * time.Second

// NotOffered says, in a sentence, what the client does not have.
type NotOffered string

func (reason NotOffered) Error() string { return string(reason) }

// Text is a key or a value; null is nil.
type Text []byte

// UnmarshalJSON takes a string, or a long one as {"of": "x", "times": 5}.
func (text *Text) UnmarshalJSON(data []byte) error {
	if data[0] == '{' {
		var long struct {
			Of    string
			Times int
		}
		if err := json.Unmarshal(data, &long); err != nil {
			return err
		}
		*text = Text(strings.Repeat(long.Of, long.Times))
		return nil
	}
	var short string
	if err := json.Unmarshal(data, &short); err != nil {
		return err
	}
	*text = Text(short)
	return nil
}

// Record has headers of a name and, unless it is null, a value.
type Record struct {
	Key     Text       `json:"key"`
	Value   Text       `json:"value"`
	Headers [][]string `json:"headers"`
}

// Step is one of any kind; what its kind does not have is empty.
type Step struct {
	Do              string            `json:"do"`
	Topic           string            `json:"topic"`
	Records         []Record          `json:"records"`
	Codec           string            `json:"codec"`
	Acks            string            `json:"acks"`
	Count           int               `json:"count"`
	Size            int               `json:"size"`
	From            int64             `json:"from"`
	Committed       bool              `json:"committed"`
	Whole           bool              `json:"whole"`
	Member          string            `json:"member"`
	Members         map[string]int    `json:"members"`
	Group           string            `json:"group"`
	Strategy        string            `json:"strategy"`
	Instance        string            `json:"instance"`
	Offset          int64             `json:"offset"`
	Metadata        string            `json:"metadata"`
	Producer        string            `json:"producer"`
	TransactionalID string            `json:"transactional_id"`
	TimeoutMs       int               `json:"timeout_ms"`
	Values          []string          `json:"values"`
	Commit          bool              `json:"commit"`
	Partitions      int               `json:"partitions"`
	Settings        map[string]string `json:"settings"`
	Name            string            `json:"name"`
	Value           string            `json:"value"`
	Before          int64             `json:"before"`
	ClientID        string            `json:"client_id"`
	Rate            float64           `json:"rate"`
	Gives           json.RawMessage   `json:"gives"`
	Eventually      bool              `json:"eventually"`
}

// At says where the broker is, and how to get in where it is guarded.
type At struct {
	Bootstrap string `json:"bootstrap"`
	Authority string `json:"authority"`
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
}

// Teller takes the steps of one story. Close gives up whatever the story left open.
type Teller interface {
	Take(ctx context.Context, step Step) (any, error)
	Close()
}

// Main tells the stories of the file that is the program's argument.
func Main(teller func(At) (Teller, error)) {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	var told []struct {
		Name  string `json:"name"`
		At    At     `json:"at"`
		Steps []Step `json:"steps"`
	}
	if err := json.Unmarshal(text, &told); err != nil {
		panic(err)
	}
	for _, story := range told {
		one, err := teller(story.At)
		if err != nil {
			panic(err)
		}
		line := tell(one, story.Steps)
		one.Close()
		line["story"] = story.Name
		printed, err := json.Marshal(line)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(printed))
	}
}

// tell returns what was seen at each step, up to the first that is refused unexpectedly.
func tell(teller Teller, steps []Step) map[string]any {
	observed := []any{}
	for _, step := range steps {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		if step.Eventually {
			WaitUntil(func() bool {
				saw, err := teller.Take(ctx, step)
				printed, _ := json.Marshal(saw)
				var reason NotOffered
				return err == nil && string(printed) == string(step.Gives) || errors.As(err, &reason)
			})
		}
		saw, err := teller.Take(ctx, step)
		cancel()
		var reason NotOffered
		if errors.As(err, &reason) {
			return map[string]any{"not offered": string(reason)}
		}
		if err == nil {
			observed = append(observed, saw)
			continue
		}
		observed = append(observed, map[string]any{"error": fmt.Sprintf("%T: %v", err, err)})
		var expected map[string]any
		if json.Unmarshal(step.Gives, &expected) != nil || expected["error"] == nil {
			break
		}
	}
	return map[string]any{"observed": observed}
}

// Shown is a key or value as the list writes it.
func Shown(value []byte) any {
	if value == nil {
		return nil
	}
	text := string(value)
	if len(text) > 200 && strings.Count(text, text[:1]) == len(text) {
		return map[string]any{"of": text[:1], "times": len(text)}
	}
	return text
}

// WholeRecord is a record as the list writes it; header gives the name and the value of each header.
func WholeRecord(key, value []byte, headers int, header func(int) (string, []byte)) map[string]any {
	told := []any{}
	for number := range headers {
		name, content := header(number)
		if content == nil {
			told = append(told, []string{name})
		} else {
			told = append(told, []string{name, string(content)})
		}
	}
	return map[string]any{"key": Shown(key), "value": Shown(value), "headers": told}
}

// Streamed is a value of a stream.
func Streamed(number int) []byte { return fmt.Appendf(nil, "%0100d", number) }

// Member is a consumer that polls by itself; what it owns and has read.
type Member struct {
	Leave  func()
	lock   sync.Mutex
	left   sync.Once
	owned  map[int32]bool
	taken  int
	values map[string]bool
}

// NewMember owns nothing.
func NewMember() *Member { return &Member{owned: map[int32]bool{}, values: map[string]bool{}} }

// Assigned says that it owns these, too.
func (m *Member) Assigned(partitions []int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, partition := range partitions {
		m.owned[partition] = true
	}
}

// Revoked says that it owns these no longer.
func (m *Member) Revoked(partitions []int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, partition := range partitions {
		if m.owned[partition] {
			m.taken++
		}
		delete(m.owned, partition)
	}
}

// Read says that it has read a value.
func (m *Member) Read(value []byte) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.values[string(value)] = true
}

// Members takes the steps that are alike for all clients.
type Members map[string]*Member

// Take returns false where it does not know the step.
func (members Members) Take(step Step) (any, error, bool) {
	switch step.Do {
	case "owned":
		found, err := members.owned(step.Members)
		return found, err, true
	case "taken":
		one := members[step.Member]
		one.lock.Lock()
		defer one.lock.Unlock()
		number := one.taken
		one.taken = 0
		return number, nil, true
	case "seen":
		return members.seen(step.Count), nil, true
	case "leave":
		one := members[step.Member]
		one.left.Do(one.Leave)
		return nil, nil, true
	}
	return nil, nil, false
}

func (members Members) owned(wanted map[string]int) (any, error) {
	found := map[string]int{}
	came := WaitUntil(func() bool {
		same := true
		for name, count := range wanted {
			one := members[name]
			one.lock.Lock()
			found[name] = len(one.owned)
			one.lock.Unlock()
			same = same && found[name] == count
		}
		return same
	})
	if !came {
		return nil, fmt.Errorf("they own %v", found)
	}
	return found, nil
}

func (members Members) seen(count int) int {
	values := map[string]bool{}
	WaitUntil(func() bool {
		for _, one := range members {
			one.lock.Lock()
			for value := range one.values {
				values[value] = true
			}
			one.lock.Unlock()
		}
		return len(values) >= count
	})
	return len(values)
}

// Close has all of them leave.
func (members Members) Close() {
	for _, one := range members {
		one.left.Do(one.Leave)
	}
}

// WaitUntil polls for what the other side gives no notice of, and says whether it came.
func WaitUntil(condition func() bool) bool {
	for ends := time.Now().Add(Patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(ends) {
			return false
		}
	}
	return true
}

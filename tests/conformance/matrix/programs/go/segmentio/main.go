// segmentio/kafka-go in the stories.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/scram"

	"tallystick.test/matrix/stories"
)

var codecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

var acks = map[string]kafka.RequiredAcks{
	"": kafka.RequireAll, "all": kafka.RequireAll, "0": kafka.RequireNone, "1": kafka.RequireOne,
}

type teller struct {
	stories.Members
	brokers   []string
	transport *kafka.Transport
	dialer    *kafka.Dialer
}

func main() {
	stories.Main(func(at stories.At) (stories.Teller, error) {
		transport := &kafka.Transport{}
		dialer := &kafka.Dialer{Timeout: stories.Patience, DualStack: true}
		if at.Mechanism != "" {
			encrypted, err := at.TLS()
			if err != nil {
				return nil, err
			}
			hash := scram.SHA256
			if at.Mechanism == "SCRAM-SHA-512" {
				hash = scram.SHA512
			}
			var mechanism sasl.Mechanism
			if mechanism, err = scram.Mechanism(hash, at.User, at.Password); err != nil {
				return nil, err
			}
			transport.TLS, transport.SASL = encrypted, mechanism
			dialer.TLS, dialer.SASLMechanism = encrypted, mechanism
		}
		return &teller{stories.Members{}, []string{at.Bootstrap}, transport, dialer}, nil
	})
}

func (t *teller) Close() {
	t.Members.Close()
	t.transport.CloseIdleConnections()
}

func (t *teller) Take(ctx context.Context, step stories.Step) (any, error) {
	if saw, err, known := t.Members.Take(step); known {
		return saw, err
	}
	switch step.Do {
	case "produce":
		return nil, t.produce(ctx, step)
	case "stream":
		return nil, stories.NotOffered("its writers are not idempotent")
	case "press":
		return t.press(ctx, step)
	case "read":
		return t.read(ctx, step)
	case "join":
		return nil, t.join(step)
	case "resume":
		return t.resume(ctx, step)
	case "open":
		return nil, stories.NotOffered("its writers know no transactions")
	}
	// A transport keeps what it knows of topics for a while: each step has its own.
	fresh := &kafka.Transport{TLS: t.transport.TLS, SASL: t.transport.SASL}
	defer fresh.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(t.brokers...), Timeout: stories.Patience, Transport: fresh}
	return administer(ctx, client, step)
}

func (t *teller) writer(topic string) *kafka.Writer {
	return &kafka.Writer{
		Addr: kafka.TCP(t.brokers...), Topic: topic, Transport: t.transport, AllowAutoTopicCreation: true,
		Balancer:     kafka.BalancerFunc(func(kafka.Message, ...int) int { return 0 }),
		BatchTimeout: 20 * time.Millisecond, BatchBytes: 1_040_000, RequiredAcks: kafka.RequireAll,
	}
}

// produce is not told offsets.
func (t *teller) produce(ctx context.Context, step stories.Step) error {
	writer := t.writer(step.Topic)
	defer writer.Close()
	writer.Compression, writer.RequiredAcks = codecs[step.Codec], acks[step.Acks]
	messages := []kafka.Message{}
	for _, one := range step.Records {
		message := kafka.Message{Key: one.Key, Value: one.Value}
		for _, header := range one.Headers {
			content := []byte(nil)
			if len(header) > 1 {
				content = []byte(header[1])
			}
			message.Headers = append(message.Headers, kafka.Header{Key: header[0], Value: content})
		}
		messages = append(messages, message)
	}
	return writer.WriteMessages(ctx, messages...)
}

func (t *teller) press(ctx context.Context, step stories.Step) (any, error) {
	writer := t.writer(step.Topic)
	defer writer.Close()
	writer.Transport = &kafka.Transport{ClientID: step.ClientID, TLS: t.transport.TLS, SASL: t.transport.SASL}
	writer.BatchSize = 10
	messages := []kafka.Message{}
	for range step.Count {
		messages = append(messages, kafka.Message{Value: make([]byte, step.Size)})
	}
	err := writer.WriteMessages(ctx, messages...)
	return map[string]any{"acknowledged": len(messages), "throttled": nil}, err
}

func (t *teller) reader(topic string, partition int) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: t.brokers, Topic: topic, Partition: partition, Dialer: t.dialer, MaxBytes: 10_000_000,
		MaxWait: 100 * time.Millisecond,
	})
}

func (t *teller) read(ctx context.Context, step stories.Step) (any, error) {
	isolation := kafka.ReadUncommitted
	if step.Committed {
		isolation = kafka.ReadCommitted
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: t.brokers, Topic: step.Topic, Dialer: t.dialer, MaxBytes: 10_000_000, IsolationLevel: isolation,
		MaxWait: 100 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(step.From); err != nil {
		return nil, err
	}
	found := []any{}
	for {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return nil, fmt.Errorf("no end behind %v: %w", found, err)
		}
		if string(message.Value) == "end" {
			return found, nil
		}
		if !step.Whole {
			found = append(found, stories.Shown(message.Value))
			continue
		}
		found = append(found, stories.WholeRecord(message.Key, message.Value, len(message.Headers),
			func(number int) (string, []byte) { return message.Headers[number].Key, message.Headers[number].Value }))
	}
}

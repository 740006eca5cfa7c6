// sarama in the stories.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"tallystick.test/matrix/stories"
)

var codecs = map[string]sarama.CompressionCodec{
	"":       sarama.CompressionNone,
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

type teller struct {
	stories.Members
	at        stories.At
	producers map[string]sarama.SyncProducer
}

func main() {
	stories.Main(func(at stories.At) (stories.Teller, error) {
		return &teller{stories.Members{}, at, map[string]sarama.SyncProducer{}}, nil
	})
}

func (t *teller) Close() {
	t.Members.Close()
	for _, producer := range t.producers {
		_ = producer.Close()
	}
}

func (t *teller) config() (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = "stories"
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Return.Errors = true
	config.Metadata.AllowAutoTopicCreation = true
	if t.at.Mechanism != "" {
		encrypted, err := t.at.TLS()
		if err != nil {
			return nil, err
		}
		config.Net.TLS.Enable, config.Net.TLS.Config = true, encrypted
		config.Net.SASL.Enable, config.Net.SASL.Mechanism = true, sarama.SASLMechanism(t.at.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = t.at.User, t.at.Password
		config.Net.SASL.SCRAMClientGeneratorFunc = conversation(t.at.Mechanism)
	}
	return config, nil
}

func (t *teller) brokers() []string { return []string{t.at.Bootstrap} }

func (t *teller) Take(ctx context.Context, step stories.Step) (any, error) {
	if saw, err, known := t.Members.Take(step); known {
		return saw, err
	}
	switch step.Do {
	case "produce":
		return t.produce(step)
	case "stream":
		return t.stream(step)
	case "press":
		return t.press(step)
	case "read":
		return t.read(ctx, step)
	case "join":
		return nil, t.join(step)
	case "resume":
		return t.resume(ctx, step)
	case "open":
		return nil, t.open(step)
	case "begin":
		return nil, t.producers[step.Producer].BeginTxn()
	case "send":
		return nil, t.send(step)
	case "offsets":
		position := []*sarama.PartitionOffsetMetadata{{Partition: 0, Offset: step.Offset}}
		offsets := map[string][]*sarama.PartitionOffsetMetadata{step.Topic: position}
		return nil, t.producers[step.Producer].AddOffsetsToTxn(offsets, step.Group)
	case "end":
		if step.Commit {
			return nil, t.producers[step.Producer].CommitTxn()
		}
		return nil, t.producers[step.Producer].AbortTxn()
	case "finish":
		if err := t.send(step); err != nil {
			return nil, err
		}
		return nil, t.producers[step.Producer].CommitTxn()
	}
	return t.administer(step)
}

// write sends all at once; what it is told of the first that goes wrong is the error.
func write(producer sarama.SyncProducer, messages []*sarama.ProducerMessage) ([]any, error) {
	if err := producer.SendMessages(messages); err != nil {
		if several, ok := err.(sarama.ProducerErrors); ok {
			return nil, several[0].Err
		}
		return nil, err
	}
	offsets := []any{}
	for _, message := range messages {
		offsets = append(offsets, message.Offset)
	}
	return offsets, nil
}

// encoded is nil for null.
func encoded(text stories.Text) sarama.Encoder {
	if text == nil {
		return nil
	}
	return sarama.ByteEncoder(text)
}

func (t *teller) produce(step stories.Step) (any, error) {
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	config.Producer.Compression = codecs[step.Codec]
	config.Producer.Flush.Frequency = 50 * time.Millisecond
	switch step.Acks {
	case "0":
		config.Producer.RequiredAcks = sarama.NoResponse
	case "1":
		config.Producer.RequiredAcks = sarama.WaitForLocal
	}
	producer, err := sarama.NewSyncProducer(t.brokers(), config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := []*sarama.ProducerMessage{}
	for _, one := range step.Records {
		message := &sarama.ProducerMessage{Topic: step.Topic, Key: encoded(one.Key), Value: encoded(one.Value)}
		for _, header := range one.Headers {
			content := []byte(nil)
			if len(header) > 1 {
				content = []byte(header[1])
			}
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header[0]), Value: content})
		}
		messages = append(messages, message)
	}
	offsets, err := write(producer, messages)
	if step.Acks == "0" {
		return nil, err
	}
	return offsets, err
}

func (t *teller) stream(step stories.Step) (any, error) {
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	config.Producer.Retry.Max, config.Producer.Retry.Backoff = 100, 20*time.Millisecond
	producer, err := sarama.NewSyncProducer(t.brokers(), config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	for first := 0; first < step.Count; first += 50 {
		messages := []*sarama.ProducerMessage{}
		for number := range 50 {
			value := sarama.ByteEncoder(stories.Streamed(first + number))
			messages = append(messages, &sarama.ProducerMessage{Topic: step.Topic, Value: value})
		}
		if _, err := write(producer, messages); err != nil {
			return nil, err
		}
	}
	return step.Count, nil
}

func (t *teller) press(step stories.Step) (any, error) {
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	config.ClientID = step.ClientID
	config.Producer.Flush.MaxMessages = 10
	producer, err := sarama.NewSyncProducer(t.brokers(), config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := []*sarama.ProducerMessage{}
	for range step.Count {
		value := sarama.ByteEncoder(make([]byte, step.Size))
		messages = append(messages, &sarama.ProducerMessage{Topic: step.Topic, Value: value})
	}
	offsets, err := write(producer, messages)
	return map[string]any{"acknowledged": len(offsets), "throttled": nil}, err
}

func (t *teller) read(ctx context.Context, step stories.Step) (any, error) {
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	if step.Committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer(t.brokers(), config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(step.Topic, 0, step.From)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	found := []any{}
	for {
		select {
		case message := <-partition.Messages():
			if string(message.Value) == "end" {
				return found, nil
			}
			found = append(found, told(message, step.Whole))
		case err := <-partition.Errors():
			return nil, err
		case <-ctx.Done():
			return nil, fmt.Errorf("no end behind %d records", len(found))
		}
	}
}

func told(message *sarama.ConsumerMessage, whole bool) any {
	if !whole {
		return stories.Shown(message.Value)
	}
	return stories.WholeRecord(message.Key, message.Value, len(message.Headers),
		func(number int) (string, []byte) {
			return string(message.Headers[number].Key), message.Headers[number].Value
		})
}

func (t *teller) open(step stories.Step) error {
	config, err := t.config()
	if err != nil {
		return err
	}
	config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	config.Producer.Transaction.ID = step.TransactionalID
	if step.TimeoutMs > 0 {
		config.Producer.Transaction.Timeout = time.Duration(step.TimeoutMs) * time.Millisecond
	}
	producer, err := sarama.NewSyncProducer(t.brokers(), config)
	if err == nil {
		t.producers[step.Producer] = producer
	}
	return err
}

func (t *teller) send(step stories.Step) error {
	messages := []*sarama.ProducerMessage{}
	for _, value := range step.Values {
		messages = append(messages, &sarama.ProducerMessage{Topic: step.Topic, Value: sarama.StringEncoder(value)})
	}
	_, err := write(t.producers[step.Producer], messages)
	return err
}

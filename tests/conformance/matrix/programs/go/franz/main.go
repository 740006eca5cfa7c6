// franz-go in the stories.
package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"tallystick.test/matrix/stories"
)

var codecs = map[string]kgo.CompressionCodec{
	"":       kgo.NoCompression(),
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

type teller struct {
	stories.Members
	address   []kgo.Opt
	producers map[string]*kgo.Client
	ids       map[string]string
}

func main() {
	stories.Main(func(at stories.At) (stories.Teller, error) {
		address := []kgo.Opt{
			kgo.SeedBrokers(at.Bootstrap), kgo.RecordDeliveryTimeout(stories.Patience), kgo.AllowAutoTopicCreation(),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RetryTimeout(stories.Patience),
		}
		if at.Mechanism != "" {
			encrypted, err := at.TLS()
			if err != nil {
				return nil, err
			}
			who := scram.Auth{User: at.User, Pass: at.Password}
			mechanism := who.AsSha256Mechanism()
			if at.Mechanism == "SCRAM-SHA-512" {
				mechanism = who.AsSha512Mechanism()
			}
			address = append(address, kgo.DialTLSConfig(encrypted), kgo.SASL(mechanism))
		}
		return &teller{stories.Members{}, address, map[string]*kgo.Client{}, map[string]string{}}, nil
	})
}

func (t *teller) Close() {
	t.Members.Close()
	for _, producer := range t.producers {
		producer.Close()
	}
}

func (t *teller) client(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(append([]kgo.Opt{}, t.address...), more...)...)
}

func (t *teller) Take(ctx context.Context, step stories.Step) (any, error) {
	if saw, err, known := t.Members.Take(step); known {
		return saw, err
	}
	switch step.Do {
	case "produce":
		return t.produce(ctx, step)
	case "stream":
		return t.stream(ctx, step)
	case "press":
		return t.press(ctx, step)
	case "read":
		return t.read(ctx, step)
	case "join":
		return nil, t.join(step)
	case "resume":
		return t.resume(ctx, step)
	case "open":
		return nil, t.open(ctx, step)
	case "begin":
		return nil, t.producers[step.Producer].BeginTransaction()
	case "send":
		return nil, send(ctx, t.producers[step.Producer], step)
	case "offsets":
		return nil, offsets(ctx, t.producers[step.Producer], t.ids[step.Producer], step)
	case "end":
		return nil, t.producers[step.Producer].EndTransaction(ctx, kgo.TransactionEndTry(step.Commit))
	case "finish":
		if err := send(ctx, t.producers[step.Producer], step); err != nil {
			return nil, err
		}
		return nil, t.producers[step.Producer].EndTransaction(ctx, kgo.TryCommit)
	}
	client, err := t.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return administer(ctx, kadm.NewClient(client), step)
}

func write(ctx context.Context, client *kgo.Client, records []*kgo.Record) ([]any, error) {
	told := []any{}
	results := client.ProduceSync(ctx, records...)
	if err := results.FirstErr(); err != nil {
		return nil, err
	}
	for _, record := range records {
		told = append(told, record.Offset)
	}
	return told, nil
}

func (t *teller) produce(ctx context.Context, step stories.Step) (any, error) {
	options := []kgo.Opt{
		kgo.ProducerBatchCompression(codecs[step.Codec]), kgo.ProducerLinger(50 * time.Millisecond),
		kgo.ProducerBatchMaxBytes(1_040_000),
	}
	switch step.Acks {
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	client, err := t.client(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := []*kgo.Record{}
	for _, one := range step.Records {
		record := &kgo.Record{Topic: step.Topic, Key: one.Key, Value: one.Value}
		for _, header := range one.Headers {
			content := []byte(nil)
			if len(header) > 1 {
				content = []byte(header[1])
			}
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header[0], Value: content})
		}
		records = append(records, record)
	}
	told, err := write(ctx, client, records)
	if step.Acks == "0" {
		return nil, err
	}
	return told, err
}

func (t *teller) stream(ctx context.Context, step stories.Step) (any, error) {
	client, err := t.client(kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for first := 0; first < step.Count; first += 50 {
		records := []*kgo.Record{}
		for number := range 50 {
			records = append(records, &kgo.Record{Topic: step.Topic, Value: stories.Streamed(first + number)})
		}
		if _, err := write(ctx, client, records); err != nil {
			return nil, err
		}
	}
	return step.Count, nil
}

// waits counts how often a broker said that it throttles.
type waits struct{ count atomic.Int32 }

func (w *waits) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	if interval > 0 {
		w.count.Add(1)
	}
}

func (t *teller) press(ctx context.Context, step stories.Step) (any, error) {
	heard := &waits{}
	client, err := t.client(kgo.ClientID(step.ClientID), kgo.ProducerBatchMaxBytes(100_000), kgo.WithHooks(heard),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := []*kgo.Record{}
	for range step.Count {
		records = append(records, &kgo.Record{Topic: step.Topic, Value: make([]byte, step.Size)})
	}
	told, err := write(ctx, client, records)
	return map[string]any{"acknowledged": len(told), "throttled": heard.count.Load() > 0}, err
}

func upToTheEnd(ctx context.Context, client *kgo.Client) ([]*kgo.Record, error) {
	var found []*kgo.Record
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		found = append(found, fetches.Records()...)
		if last := len(found) - 1; last >= 0 && string(found[last].Value) == "end" {
			return found[:last], nil
		}
	}
}

func values(records []*kgo.Record) []any {
	found := []any{}
	for _, record := range records {
		found = append(found, stories.Shown(record.Value))
	}
	return found
}

func (t *teller) read(ctx context.Context, step stories.Step) (any, error) {
	isolation := kgo.ReadUncommitted()
	if step.Committed {
		isolation = kgo.ReadCommitted()
	}
	from := map[string]map[int32]kgo.Offset{step.Topic: {0: kgo.NewOffset().At(step.From)}}
	client, err := t.client(kgo.FetchIsolationLevel(isolation), kgo.ConsumePartitions(from))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records, err := upToTheEnd(ctx, client)
	if err != nil || !step.Whole {
		return values(records), err
	}
	whole := []any{}
	for _, record := range records {
		whole = append(whole, stories.WholeRecord(record.Key, record.Value, len(record.Headers),
			func(number int) (string, []byte) { return record.Headers[number].Key, record.Headers[number].Value }))
	}
	return whole, nil
}

func reading(step stories.Step) []kgo.Opt {
	return []kgo.Opt{
		kgo.ConsumerGroup(step.Group), kgo.ConsumeTopics(step.Topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
}

func (t *teller) join(step stories.Step) error {
	member := stories.NewMember()
	revoked := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		member.Revoked(partitions[step.Topic])
	}
	options := append(reading(step), kgo.Balancers(balancers[step.Strategy]),
		kgo.HeartbeatInterval(200*time.Millisecond), kgo.OnPartitionsRevoked(revoked), kgo.OnPartitionsLost(revoked),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			member.Assigned(partitions[step.Topic])
		}))
	if step.Instance != "" {
		options = append(options, kgo.InstanceID(step.Instance))
	}
	client, err := t.client(options...)
	if err != nil {
		return err
	}
	go func() {
		for {
			fetches := client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachRecord(func(record *kgo.Record) { member.Read(record.Value) })
		}
	}()
	member.Leave = client.Close
	t.Members[step.Member] = member
	return nil
}

func (t *teller) resume(ctx context.Context, step stories.Step) (any, error) {
	client, err := t.client(reading(step)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found, err := upToTheEnd(ctx, client)
	if err != nil {
		return nil, err
	}
	return values(found), client.CommitUncommittedOffsets(ctx)
}

func (t *teller) open(ctx context.Context, step stories.Step) error {
	timeout := time.Minute
	if step.TimeoutMs > 0 {
		timeout = time.Duration(step.TimeoutMs) * time.Millisecond
	}
	client, err := t.client(kgo.TransactionalID(step.TransactionalID), kgo.TransactionTimeout(timeout))
	if err != nil {
		return err
	}
	t.producers[step.Producer], t.ids[step.Producer] = client, step.TransactionalID
	_, _, err = client.ProducerID(ctx)
	return err
}

func send(ctx context.Context, client *kgo.Client, step stories.Step) error {
	records := []*kgo.Record{}
	for _, value := range step.Values {
		records = append(records, &kgo.Record{Topic: step.Topic, Value: []byte(value)})
	}
	_, err := write(ctx, client, records)
	return err
}

// offsets are sent as a request: the client offers them to sessions of a group only, with what these have polled.
func offsets(ctx context.Context, client *kgo.Client, name string, step stories.Step) error {
	id, epoch, err := client.ProducerID(ctx)
	if err != nil {
		return err
	}
	request := kmsg.NewPtrTxnOffsetCommitRequest()
	request.TransactionalID, request.Group = name, step.Group
	request.ProducerID, request.ProducerEpoch = id, epoch
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = step.Topic
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset = step.Offset
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
}

package main

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"

	"tallystick.test/matrix/stories"
)

var balancers = map[string]kafka.GroupBalancer{
	"range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{},
}

func (t *teller) group(name, topic string, balancer kafka.GroupBalancer) (*kafka.ConsumerGroup, error) {
	return kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: name, Brokers: t.brokers, Topics: []string{topic}, Dialer: t.dialer, StartOffset: kafka.FirstOffset,
		GroupBalancers: []kafka.GroupBalancer{balancer}, HeartbeatInterval: 200 * time.Millisecond,
	})
}

// follow reads a partition of a generation until that ends.
func (t *teller) follow(
	ctx context.Context, topic string, assigned kafka.PartitionAssignment, read func(kafka.Message),
) {
	reader := t.reader(topic, assigned.ID)
	defer reader.Close()
	if reader.SetOffset(assigned.Offset) != nil {
		return
	}
	for {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return
		}
		read(message)
	}
}

func (t *teller) join(step stories.Step) error {
	balancer, known := balancers[step.Strategy]
	if !known {
		return stories.NotOffered("no balancer " + step.Strategy)
	}
	if step.Instance != "" {
		return stories.NotOffered("no static members")
	}
	group, err := t.group(step.Group, step.Topic, balancer)
	if err != nil {
		return err
	}
	member := stories.NewMember()
	go func() {
		for {
			generation, err := group.Next(context.Background())
			if errors.Is(err, kafka.ErrGroupClosed) {
				return
			}
			if err != nil {
				continue
			}
			partitions := []int32{}
			for _, assigned := range generation.Assignments[step.Topic] {
				partitions = append(partitions, int32(assigned.ID))
				generation.Start(func(ctx context.Context) {
					t.follow(ctx, step.Topic, assigned, func(message kafka.Message) { member.Read(message.Value) })
				})
			}
			member.Assigned(partitions)
			generation.Start(func(ctx context.Context) {
				<-ctx.Done()
				member.Revoked(partitions)
			})
		}
	}()
	member.Leave = func() { _ = group.Close() }
	t.Members[step.Member] = member
	return nil
}

func (t *teller) resume(ctx context.Context, step stories.Step) (any, error) {
	group, err := t.group(step.Group, step.Topic, kafka.RangeGroupBalancer{})
	if err != nil {
		return nil, err
	}
	defer group.Close()
	generation, err := group.Next(ctx)
	if err != nil {
		return nil, err
	}
	found := []any{}
	reader := t.reader(step.Topic, 0)
	defer reader.Close()
	if err := reader.SetOffset(generation.Assignments[step.Topic][0].Offset); err != nil {
		return nil, err
	}
	for {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return nil, err
		}
		if string(message.Value) == "end" {
			return found, generation.CommitOffsets(map[string]map[int]int64{step.Topic: {0: message.Offset + 1}})
		}
		found = append(found, stories.Shown(message.Value))
	}
}

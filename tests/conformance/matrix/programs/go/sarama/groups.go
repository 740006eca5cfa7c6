package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"tallystick.test/matrix/stories"
)

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange,
	"roundrobin": sarama.NewBalanceStrategyRoundRobin,
	"sticky":     sarama.NewBalanceStrategySticky,
}

// handler passes on what a session of a group owns and reads.
type handler struct {
	topic    string
	assigned func([]int32)
	revoked  func([]int32)
	read     func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage)
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	h.assigned(session.Claims()[h.topic])
	return nil
}

func (h *handler) Cleanup(session sarama.ConsumerGroupSession) error {
	h.revoked(session.Claims()[h.topic])
	return nil
}

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			h.read(session, message)
		case <-session.Context().Done():
			return nil
		}
	}
}

func (t *teller) join(step stories.Step) error {
	strategy, known := strategies[step.Strategy]
	if !known {
		return stories.NotOffered("no assignor " + step.Strategy)
	}
	config, err := t.config()
	if err != nil {
		return err
	}
	config.Consumer.Return.Errors = false
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy()}
	config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	config.Consumer.Group.InstanceId = step.Instance
	group, err := sarama.NewConsumerGroup(t.brokers(), step.Group, config)
	if err != nil {
		return err
	}
	member := stories.NewMember()
	passing := &handler{step.Topic, member.Assigned, member.Revoked,
		func(_ sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) { member.Read(message.Value) }}
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{step.Topic}, passing); errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
		}
	}()
	member.Leave = func() {
		cancel()
		<-ended
		_ = group.Close()
	}
	t.Members[step.Member] = member
	return nil
}

func (t *teller) resume(ctx context.Context, step stories.Step) (any, error) {
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	config.Consumer.Return.Errors = false
	group, err := sarama.NewConsumerGroup(t.brokers(), step.Group, config)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	found, ended := []any{}, false
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ignore := func([]int32) {}
	err = group.Consume(ctx, []string{step.Topic}, &handler{step.Topic, ignore, ignore,
		func(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) {
			session.MarkMessage(message, "")
			if string(message.Value) != "end" {
				found = append(found, stories.Shown(message.Value))
				return
			}
			session.Commit()
			ended = true
			cancel()
		}})
	if err == nil && !ended {
		err = fmt.Errorf("no end behind %d records", len(found))
	}
	return found, err
}

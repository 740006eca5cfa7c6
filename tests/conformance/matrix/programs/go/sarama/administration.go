package main

import (
	"strings"

	"github.com/IBM/sarama"

	"tallystick.test/matrix/stories"
)

const rate = "producer_byte_rate"

// administer takes the steps of an administrator, and offsets without being a member.
func (t *teller) administer(step stories.Step) (any, error) {
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	client, err := sarama.NewClient(t.brokers(), config)
	if err != nil {
		return nil, err
	}
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	switch step.Do {
	case "commit":
		position := sarama.OffsetAndMetadata{Offset: step.Offset, LeaderEpoch: -1, Metadata: step.Metadata}
		offsets := map[string]map[int32]sarama.OffsetAndMetadata{step.Topic: {0: position}}
		answer, err := admin.AlterConsumerGroupOffsets(step.Group, offsets, nil)
		if err != nil {
			return nil, err
		}
		if code := answer.Errors[step.Topic][0]; code != sarama.ErrNoError {
			return nil, code
		}
		return nil, nil
	case "committed":
		answer, err := admin.ListConsumerGroupOffsets(step.Group, map[string][]int32{step.Topic: {0}})
		if err != nil {
			return nil, err
		}
		found := answer.GetBlock(step.Topic, 0)
		if found == nil || found.Offset < 0 {
			return nil, nil
		}
		return map[string]any{"offset": found.Offset, "metadata": found.Metadata}, nil
	case "make":
		settings := map[string]*string{}
		for name, value := range step.Settings {
			settings[name] = &value
		}
		wanted := &sarama.TopicDetail{NumPartitions: int32(step.Partitions), ReplicationFactor: 1, ConfigEntries: settings}
		return nil, admin.CreateTopic(step.Topic, wanted, false)
	case "partitions":
		found, err := admin.DescribeTopics([]string{step.Topic})
		if err != nil {
			return nil, err
		}
		return len(found[0].Partitions), nil
	case "grow":
		return nil, admin.CreatePartitions(step.Topic, int32(step.Partitions), nil, false)
	case "drop":
		return nil, admin.DeleteTopic(step.Topic)
	case "set":
		wanted := map[string]sarama.IncrementalAlterConfigsEntry{
			step.Name: {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &step.Value},
		}
		return nil, admin.IncrementalAlterConfig(sarama.TopicResource, step.Topic, wanted, false)
	case "setting":
		asked := sarama.ConfigResource{Type: sarama.TopicResource, Name: step.Topic, ConfigNames: []string{step.Name}}
		found, err := admin.DescribeConfig(asked)
		if err != nil {
			return nil, err
		}
		return found[0].Value, nil
	case "bounds":
		first, err := client.GetOffset(step.Topic, 0, sarama.OffsetOldest)
		if err != nil {
			return nil, err
		}
		last, err := client.GetOffset(step.Topic, 0, sarama.OffsetNewest)
		return []int64{first, last}, err
	case "trim":
		return nil, admin.DeleteRecords(step.Topic, map[int32]int64{0: step.Before})
	case "listed":
		found, err := admin.ListConsumerGroups()
		_, known := found[step.Group]
		return known, err
	case "state":
		found, err := admin.DescribeConsumerGroups([]string{step.Group})
		if err != nil {
			return nil, err
		}
		return strings.ToLower(found[0].State), nil
	case "forget":
		return nil, admin.DeleteConsumerGroup(step.Group)
	}
	return quotas(admin, step)
}

func quotas(admin sarama.ClusterAdmin, step stories.Step) (any, error) {
	switch step.Do {
	case "quota":
		entity := []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityClientID, Name: step.ClientID}}
		return nil, admin.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: rate, Value: step.Rate}, false)
	case "quota_of":
		found, err := admin.DescribeClientQuotas([]sarama.QuotaFilterComponent{
			{EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Match: step.ClientID},
		}, true)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, nil
		}
		return found[0].Values[rate], nil
	}
	return nil, stories.NotOffered("no " + step.Do)
}

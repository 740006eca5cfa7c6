package main

import (
	"context"
	"strings"

	"github.com/segmentio/kafka-go"

	"tallystick.test/matrix/stories"
)

const rate = "producer_byte_rate"

// administer takes the steps of an administrator, and offsets without being a member.
func administer(ctx context.Context, client *kafka.Client, step stories.Step) (any, error) {
	switch step.Do {
	case "commit":
		position := kafka.OffsetCommit{Partition: 0, Offset: step.Offset, Metadata: step.Metadata}
		answer, err := client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
			GroupID: step.Group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{step.Topic: {position}},
		})
		if err != nil {
			return nil, err
		}
		return nil, answer.Topics[step.Topic][0].Error
	case "committed":
		answer, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
			GroupID: step.Group, Topics: map[string][]int{step.Topic: {0}},
		})
		if err != nil {
			return nil, err
		}
		found := answer.Topics[step.Topic][0]
		if found.CommittedOffset < 0 {
			return nil, found.Error
		}
		return map[string]any{"offset": found.CommittedOffset, "metadata": found.Metadata}, found.Error
	case "make":
		wanted := kafka.TopicConfig{Topic: step.Topic, NumPartitions: step.Partitions, ReplicationFactor: 1}
		for name, value := range step.Settings {
			wanted.ConfigEntries = append(wanted.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
		}
		answer, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{wanted}})
		if err != nil {
			return nil, err
		}
		return nil, answer.Errors[step.Topic]
	case "partitions":
		answer, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{step.Topic}})
		if err != nil {
			return nil, err
		}
		return len(answer.Topics[0].Partitions), answer.Topics[0].Error
	case "grow":
		wanted := kafka.TopicPartitionsConfig{Name: step.Topic, Count: int32(step.Partitions)}
		answer, err := client.CreatePartitions(ctx,
			&kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{wanted}})
		if err != nil {
			return nil, err
		}
		return nil, answer.Errors[step.Topic]
	case "drop":
		answer, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{step.Topic}})
		if err != nil {
			return nil, err
		}
		return nil, answer.Errors[step.Topic]
	case "bounds":
		asked := []kafka.OffsetRequest{kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0)}
		answer, err := client.ListOffsets(ctx,
			&kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{step.Topic: asked}})
		if err != nil {
			return nil, err
		}
		found := answer.Topics[step.Topic][0]
		return []int64{found.FirstOffset, found.LastOffset}, found.Error
	case "set", "setting":
		return settings(ctx, client, step)
	case "listed", "state", "forget":
		return groups(ctx, client, step)
	case "quota", "quota_of":
		return quotas(ctx, client, step)
	}
	return nil, stories.NotOffered("its administrator does not " + step.Do + " records")
}

func settings(ctx context.Context, client *kafka.Client, step stories.Step) (any, error) {
	if step.Do == "set" {
		wanted := kafka.IncrementalAlterConfigsRequestConfig{
			Name: step.Name, Value: step.Value, ConfigOperation: kafka.ConfigOperationSet,
		}
		answer, err := client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
			Resources: []kafka.IncrementalAlterConfigsRequestResource{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: step.Topic,
				Configs: []kafka.IncrementalAlterConfigsRequestConfig{wanted},
			}},
		})
		if err != nil {
			return nil, err
		}
		return nil, answer.Resources[0].Error
	}
	answer, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: step.Topic, ConfigNames: []string{step.Name},
		}},
	})
	if err != nil {
		return nil, err
	}
	if len(answer.Resources[0].ConfigEntries) == 0 {
		return nil, answer.Resources[0].Error
	}
	return answer.Resources[0].ConfigEntries[0].ConfigValue, answer.Resources[0].Error
}

func groups(ctx context.Context, client *kafka.Client, step stories.Step) (any, error) {
	switch step.Do {
	case "listed":
		answer, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{})
		if err != nil {
			return nil, err
		}
		for _, one := range answer.Groups {
			if one.GroupID == step.Group {
				return true, answer.Error
			}
		}
		return false, answer.Error
	case "state":
		answer, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{step.Group}})
		if err != nil {
			return nil, err
		}
		return strings.ToLower(answer.Groups[0].GroupState), answer.Groups[0].Error
	}
	answer, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{step.Group}})
	if err != nil {
		return nil, err
	}
	return nil, answer.Errors[step.Group]
}

func quotas(ctx context.Context, client *kafka.Client, step stories.Step) (any, error) {
	if step.Do == "quota" {
		answer, err := client.AlterClientQuotas(ctx, &kafka.AlterClientQuotasRequest{
			Entries: []kafka.AlterClientQuotaEntry{{
				Entities: []kafka.AlterClientQuotaEntity{{EntityType: "client-id", EntityName: step.ClientID}},
				Ops:      []kafka.AlterClientQuotaOps{{Key: rate, Value: step.Rate}},
			}},
		})
		if err != nil {
			return nil, err
		}
		return nil, answer.Entries[0].Error
	}
	answer, err := client.DescribeClientQuotas(ctx, &kafka.DescribeClientQuotasRequest{
		Components: []kafka.DescribeClientQuotasRequestComponent{
			{EntityType: "client-id", MatchType: 0, Match: step.ClientID},
		},
	})
	if err != nil {
		return nil, err
	}
	if len(answer.Entries) == 0 {
		return nil, answer.Error
	}
	return answer.Entries[0].Values[0].Value, answer.Error
}

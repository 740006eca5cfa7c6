import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

/** The steps of an administrator. */
final class Administrator implements AutoCloseable {
    private static final String RATE = "producer_byte_rate";
    private final Map<String, Object> address;
    private Admin admin;

    Administrator(Map<String, Object> address) {
        this.address = address;
    }

    private static <T> T done(KafkaFuture<T> future) throws Exception {
        return future.get(Stories.PATIENCE_MS, TimeUnit.MILLISECONDS);
    }

    Object take(JsonNode step) throws Exception {
        if (admin == null) {
            admin = Admin.create(address);
        }
        String topic = step.path("topic").asText();
        List<String> group = List.of(step.path("group").asText());
        switch (step.get("do").asText()) {
            case "make":
                Map<String, String> settings = new HashMap<>();
                step.get("settings").fields().forEachRemaining(
                        one -> settings.put(one.getKey(), one.getValue().asText()));
                NewTopic wanted = new NewTopic(topic, step.get("partitions").asInt(), (short) 1).configs(settings);
                return done(admin.createTopics(List.of(wanted)).all());
            case "partitions":
                return done(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size();
            case "grow":
                NewPartitions more = NewPartitions.increaseTo(step.get("partitions").asInt());
                return done(admin.createPartitions(Map.of(topic, more)).all());
            case "drop":
                return done(admin.deleteTopics(List.of(topic)).all());
            case "set":
                return set(topic, step);
            case "setting":
                ConfigResource asked = new ConfigResource(ConfigResource.Type.TOPIC, topic);
                return done(admin.describeConfigs(List.of(asked)).all()).get(asked)
                        .get(step.get("name").asText()).value();
            case "bounds":
                return List.of(offset(topic, OffsetSpec.earliest()), offset(topic, OffsetSpec.latest()));
            case "trim":
                RecordsToDelete before = RecordsToDelete.beforeOffset(step.get("before").asLong());
                return done(admin.deleteRecords(Map.of(new TopicPartition(topic, 0), before)).all());
            case "listed":
                return done(admin.listConsumerGroups().all()).stream()
                        .anyMatch(one -> one.groupId().equals(group.get(0)));
            case "state":
                return done(admin.describeConsumerGroups(group).all()).get(group.get(0))
                        .state().toString().toLowerCase();
            case "forget":
                return done(admin.deleteConsumerGroups(group).all());
            case "quota":
                ClientQuotaAlteration.Op op = new ClientQuotaAlteration.Op(RATE, step.get("rate").asDouble());
                ClientQuotaEntity entity = new ClientQuotaEntity(Map.of("client-id", step.get("client_id").asText()));
                return done(admin.alterClientQuotas(
                        List.of(new ClientQuotaAlteration(entity, List.of(op)))).all());
            case "quota_of":
                ClientQuotaFilter filter = ClientQuotaFilter.containsOnly(List.of(
                        ClientQuotaFilterComponent.ofEntity("client-id", step.get("client_id").asText())));
                return done(admin.describeClientQuotas(filter).entities()).values().iterator().next().get(RATE);
            default:
                throw new Stories.NotOffered("no " + step.get("do").asText());
        }
    }

    private Object set(String topic, JsonNode step) throws Exception {
        ConfigEntry entry = new ConfigEntry(step.get("name").asText(), step.get("value").asText());
        Collection<AlterConfigOp> ops = new ArrayList<>(List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return done(admin.incrementalAlterConfigs(Map.of(resource, ops)).all());
    }

    private long offset(String topic, OffsetSpec spec) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        return done(admin.listOffsets(Map.of(partition, spec)).partitionResult(partition)).offset();
    }

    @Override
    public void close() {
        if (admin != null) {
            admin.close();
        }
    }
}

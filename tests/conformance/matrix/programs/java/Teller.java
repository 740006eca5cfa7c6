import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** One story, with a client of its own for each step that needs one. */
final class Teller implements AutoCloseable {
    private static final Map<String, String> STRATEGIES = Map.of(
            "range", "RangeAssignor",
            "roundrobin", "RoundRobinAssignor",
            "sticky", "StickyAssignor",
            "cooperative-sticky", "CooperativeStickyAssignor");

    private final Map<String, Object> address = new HashMap<>();
    private final Map<String, Member> members = new HashMap<>();
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private final Administrator administrator;

    Teller(JsonNode at) {
        address.put("bootstrap.servers", at.get("bootstrap").asText());
        address.put("default.api.timeout.ms", 30_000);
        address.put("request.timeout.ms", 20_000);
        if (at.has("mechanism")) {
            String who = String.format(
                    "username=\"%s\" password=\"%s\"", at.get("user").asText(), at.get("password").asText());
            address.put("security.protocol", "SASL_SSL");
            address.put("ssl.truststore.type", "PEM");
            address.put("ssl.truststore.location", at.get("authority").asText());
            address.put("sasl.mechanism", at.get("mechanism").asText());
            address.put(
                    "sasl.jaas.config",
                    "org.apache.kafka.common.security.scram.ScramLoginModule required " + who + ";");
        }
        administrator = new Administrator(address);
    }

    Object take(JsonNode step) throws Exception {
        String topic = step.path("topic").asText();
        String group = step.path("group").asText();
        String producer = step.path("producer").asText();
        switch (step.get("do").asText()) {
            case "produce":
                return produce(topic, step);
            case "stream":
                return stream(topic, step.get("count").asInt());
            case "press":
                return press(topic, step);
            case "read":
                return read(topic, step);
            case "join":
                return join(group, topic, step);
            case "owned":
                return owned(step.get("members"));
            case "taken":
                return taken(members.get(step.get("member").asText()));
            case "seen":
                return seen(step.get("count").asInt());
            case "leave":
                members.get(step.get("member").asText()).leave();
                return null;
            case "commit":
                return commit(group, topic, step);
            case "committed":
                return committed(group, topic);
            case "resume":
                return resume(group, topic);
            case "open":
                return open(producer, step);
            case "begin":
                producers.get(producer).beginTransaction();
                return null;
            case "send":
                return send(producers.get(producer), topic, step.get("values"));
            case "offsets":
                return offsets(producers.get(producer), group, topic, step.get("offset").asLong());
            case "end":
                return end(producers.get(producer), step.get("commit").asBoolean());
            case "finish":
                send(producers.get(producer), topic, step.get("values"));
                return end(producers.get(producer), true);
            default:
                return administrator.take(step);
        }
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
        Map<String, Object> all = new HashMap<>(address);
        // A value of 1 MB and what is around it are a little more than the default.
        all.putAll(Map.of("max.request.size", 2_000_000, "delivery.timeout.ms", 30_000, "linger.ms", 5));
        all.putAll(more);
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static List<Object> write(KafkaProducer<byte[], byte[]> producer, Iterable<ProducerRecord<byte[], byte[]>> records)
            throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (ProducerRecord<byte[], byte[]> record : records) {
            sent.add(producer.send(record));
        }
        List<Object> offsets = new ArrayList<>();
        for (Future<RecordMetadata> one : sent) {
            long offset = one.get(Stories.PATIENCE_MS, TimeUnit.MILLISECONDS).offset();
            offsets.add(offset < 0 ? null : offset);
        }
        return offsets;
    }

    private List<Object> produce(String topic, JsonNode step) throws Exception {
        String acks = step.path("acks").asText("all");
        Map<String, Object> more = new HashMap<>(
                Map.of("compression.type", step.path("codec").asText("none"), "acks", acks, "linger.ms", 50));
        if (!acks.equals("all")) {
            more.put("enable.idempotence", false);
        }
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (JsonNode one : step.get("records")) {
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                    topic, 0, Stories.written(one.get("key")), Stories.written(one.get("value")));
            one.path("headers").forEach(header ->
                    record.headers().add(header.get(0).asText(), Stories.written(header.get(1))));
            records.add(record);
        }
        try (KafkaProducer<byte[], byte[]> producer = producer(more)) {
            return write(producer, records);
        }
    }

    private int stream(String topic, int count) throws Exception {
        Map<String, Object> more = Map.of("reconnect.backoff.ms", 10, "reconnect.backoff.max.ms", 50);
        try (KafkaProducer<byte[], byte[]> producer = producer(more)) {
            for (int first = 0; first < count; first += 50) {
                List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
                for (int number = first; number < first + 50; number++) {
                    records.add(new ProducerRecord<>(topic, 0, null, String.format("%0100d", number).getBytes()));
                }
                write(producer, records);
            }
        }
        return count;
    }

    private Map<String, Object> press(String topic, JsonNode step) throws Exception {
        Map<String, Object> named = Map.of("client.id", step.get("client_id").asText());
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int number = 0; number < step.get("count").asInt(); number++) {
            records.add(new ProducerRecord<>(topic, 0, null, "x".repeat(step.get("size").asInt()).getBytes()));
        }
        try (KafkaProducer<byte[], byte[]> producer = producer(named)) {
            int written = write(producer, records).size();
            boolean throttled = producer.metrics().entrySet().stream()
                    .anyMatch(one -> one.getKey().name().equals("produce-throttle-time-max")
                            && one.getValue().metricValue() instanceof Double
                            && (Double) one.getValue().metricValue() > 0);
            return Map.of("acknowledged", written, "throttled", throttled);
        }
    }

    private Map<String, Object> reading(String group) {
        Map<String, Object> all = new HashMap<>(address);
        if (group != null) {
            all.put("group.id", group);
        }
        all.put("auto.offset.reset", "earliest");
        all.put("enable.auto.commit", false);
        return all;
    }

    private static KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> settings) {
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static List<ConsumerRecord<byte[], byte[]>> upToTheEnd(KafkaConsumer<byte[], byte[]> consumer)
            throws Exception {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        boolean ended = Stories.waitUntil(() -> {
            consumer.poll(Duration.ofMillis(100)).forEach(found::add);
            return !found.isEmpty() && "end".equals(Stories.shown(found.get(found.size() - 1).value()));
        });
        if (!ended) {
            throw new TimeoutException("no end behind " + found.size() + " records");
        }
        return found.subList(0, found.size() - 1);
    }

    private static List<Object> values(List<ConsumerRecord<byte[], byte[]>> records) {
        List<Object> found = new ArrayList<>();
        records.forEach(record -> found.add(Stories.shown(record.value())));
        return found;
    }

    private List<Object> read(String topic, JsonNode step) throws Exception {
        Map<String, Object> settings = reading(null);
        settings.put("isolation.level", step.path("committed").asBoolean() ? "read_committed" : "read_uncommitted");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, step.path("from").asLong(0));
            List<ConsumerRecord<byte[], byte[]>> found = upToTheEnd(consumer);
            if (!step.path("whole").asBoolean()) {
                return values(found);
            }
            List<Object> whole = new ArrayList<>();
            found.forEach(one -> whole.add(Stories.wholeRecord(one.key(), one.value(), one.headers())));
            return whole;
        }
    }

    // Groups.

    private Object join(String group, String topic, JsonNode step) {
        Map<String, Object> settings = reading(group);
        String strategy = STRATEGIES.get(step.get("strategy").asText());
        settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + strategy);
        settings.put("heartbeat.interval.ms", 200);
        if (step.has("instance")) {
            settings.put("group.instance.id", step.get("instance").asText());
        }
        members.put(step.get("member").asText(), new Member(settings, topic));
        return null;
    }

    private Map<String, Integer> owned(JsonNode wanted) throws Exception {
        Map<String, Integer> expected = new HashMap<>();
        wanted.fields().forEachRemaining(one -> expected.put(one.getKey(), one.getValue().asInt()));
        Map<String, Integer> found = new HashMap<>();
        boolean came = Stories.waitUntil(() -> {
            for (String name : expected.keySet()) {
                synchronized (members.get(name)) {
                    found.put(name, members.get(name).owned.size());
                }
            }
            return found.equals(expected);
        });
        if (!came) {
            throw new TimeoutException("they own " + found);
        }
        return found;
    }

    private static int taken(Member member) {
        synchronized (member) {
            int number = member.taken;
            member.taken = 0;
            return number;
        }
    }

    private int seen(int count) throws Exception {
        Set<String> values = new HashSet<>();
        Stories.waitUntil(() -> {
            for (Member member : members.values()) {
                synchronized (member) {
                    values.addAll(member.values);
                }
            }
            return values.size() >= count;
        });
        return values.size();
    }

    private Object commit(String group, String topic, JsonNode step) {
        OffsetAndMetadata position =
                new OffsetAndMetadata(step.get("offset").asLong(), step.path("metadata").asText(""));
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(reading(group))) {
            consumer.commitSync(Map.of(new TopicPartition(topic, 0), position));
        }
        return null;
    }

    private Object committed(String group, String topic) {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(reading(group))) {
            OffsetAndMetadata found = consumer.committed(Set.of(partition)).get(partition);
            return found == null ? null : Map.of("offset", found.offset(), "metadata", found.metadata());
        }
    }

    private List<Object> resume(String group, String topic) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(reading(group))) {
            consumer.subscribe(List.of(topic));
            List<ConsumerRecord<byte[], byte[]>> found = upToTheEnd(consumer);
            consumer.commitSync();
            return values(found);
        }
    }

    // Transactions.

    private Object open(String name, JsonNode step) {
        KafkaProducer<byte[], byte[]> made = producer(Map.of(
                "transactional.id", step.get("transactional_id").asText(),
                "transaction.timeout.ms", step.path("timeout_ms").asInt(60_000),
                "max.block.ms", Stories.PATIENCE_MS));
        producers.put(name, made);
        made.initTransactions();
        return null;
    }

    private static Object send(KafkaProducer<byte[], byte[]> producer, String topic, JsonNode values) throws Exception {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        values.forEach(value -> records.add(new ProducerRecord<>(topic, 0, null, Stories.written(value))));
        write(producer, records);
        return null;
    }

    private Object offsets(KafkaProducer<byte[], byte[]> producer, String group, String topic, long offset) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(reading(group))) {
            producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(offset)), consumer.groupMetadata());
        }
        return null;
    }

    private static Object end(KafkaProducer<byte[], byte[]> producer, boolean commit) {
        if (commit) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
        return null;
    }

    @Override
    public void close() throws Exception {
        for (Member member : members.values()) {
            member.leave();
        }
        producers.values().forEach(producer -> producer.close(Duration.ZERO));
        administrator.close();
    }
}

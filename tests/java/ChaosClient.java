import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Apache Kafka's Java client, driven line by line: a command with tab-separated arguments in, one line out.
 *
 * <pre>
 * producer bootstrap transactionalId|- timeoutMs   begin   send topic partition value key   sent   flush
 * offsets group topic:partition:offset...   commit   abort   close
 * consumer bootstrap topic:partition...            poll milliseconds
 * member bootstrap group topic sessionMs records   assigned   rewind topic:partition:offset...   leave
 * </pre>
 *
 * Answers are "ok ..." or "failed kind reason", with kind one of retriable, abortable, fatal.
 */
@SuppressWarnings("removal")
public final class ChaosClient {
    private static final Duration ZERO = Duration.ofMillis(0);

    private KafkaProducer<byte[], byte[]> producer;
    private KafkaConsumer<byte[], byte[]> consumer;
    private boolean initialised;
    private String group = "";
    private Collection<TopicPartition> assigned;
    private String transactionalId = "-";
    private final List<Future<RecordMetadata>> sent = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        ChaosClient client = new ChaosClient();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(client.answer(line.split("\t")));
            out.flush();
        }
        System.exit(0);
    }

    private String answer(String[] command) {
        try {
            return "ok" + run(command);
        } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException
                | UnsupportedVersionException | FencedInstanceIdException | IllegalStateException fatal) {
            return failed("fatal", fatal);
        } catch (TimeoutException | InterruptException again) {
            return failed("retriable", again);
        } catch (KafkaException abortable) {
            return failed("abortable", abortable);
        } catch (Exception bug) {
            return failed("fatal", bug);
        }
    }

    private static String failed(String kind, Exception error) {
        return "failed\t" + kind + "\t" + error.toString().replaceAll("\\s+", " ");
    }

    private String run(String[] command) throws Exception {
        switch (command[0]) {
            case "producer":
                makeProducer(command[1], command[2], command[3]);
                return "";
            case "begin":
                sent.clear();
                producer.beginTransaction();
                return "";
            case "send":
                byte[] value = command[3].getBytes(StandardCharsets.UTF_8);
                byte[] key = command[4].getBytes(StandardCharsets.UTF_8);
                sent.add(producer.send(new ProducerRecord<>(command[1], Integer.valueOf(command[2]), key, value)));
                return "";
            case "sent":
                return offsets();
            case "offsets":
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                positions(command, 2).forEach((place, offset) -> offsets.put(place, new OffsetAndMetadata(offset)));
                boolean isMember = consumer != null && command[1].equals(group);
                ConsumerGroupMetadata unknown = new ConsumerGroupMetadata(command[1]);
                producer.sendOffsetsToTransaction(offsets, isMember ? consumer.groupMetadata() : unknown);
                return "";
            case "commit":
                producer.commitTransaction();
                return "";
            case "abort":
                producer.abortTransaction();
                return "";
            case "close":
                producer.close(ZERO);
                producer = null;
                initialised = false;
                return "";
            case "consumer":
                makeConsumer(command);
                return "";
            case "member":
                makeMember(command);
                return "";
            case "assigned":
                return assigned();
            case "rewind":
                positions(command, 1).forEach((place, offset) -> consumer.seek(place, offset));
                return "";
            case "leave":
                leave();
                return "";
            case "poll":
                return poll(Long.parseLong(command[1]));
            default:
                throw new IllegalArgumentException("no command " + command[0]);
        }
    }

    private void makeProducer(String bootstrap, String id, String timeoutMs) {
        if (producer == null) {
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("enable.idempotence", true);
            settings.put("linger.ms", 2);
            settings.put("reconnect.backoff.ms", 10);
            settings.put("reconnect.backoff.max.ms", 100);
            settings.put("max.block.ms", 15000);
            settings.put("request.timeout.ms", 5000);
            settings.put("delivery.timeout.ms", 60000);
            if (!id.equals("-")) {
                settings.put("transactional.id", id);
                settings.put("transaction.timeout.ms", Integer.valueOf(timeoutMs));
            }
            producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        }
        if (!id.equals("-") && !initialised) {
            producer.initTransactions();
        }
        initialised = true;
        transactionalId = id;
    }

    private String offsets() throws InterruptedException {
        StringBuilder found = new StringBuilder();
        for (Future<RecordMetadata> future : sent) {
            try {
                long offset = future.get(90, TimeUnit.SECONDS).offset();
                found.append('\t').append(offset);
            } catch (ExecutionException | java.util.concurrent.TimeoutException failed) {
                found.append("\t-");
            }
        }
        sent.clear();
        return found.toString();
    }

    private void makeConsumer(String[] command) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", command[1]);
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "none");
        settings.put("enable.auto.commit", false);
        settings.put("reconnect.backoff.ms", 10);
        settings.put("reconnect.backoff.max.ms", 100);
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        List<TopicPartition> places = new ArrayList<>();
        for (int index = 2; index < command.length; index++) {
            int colon = command[index].lastIndexOf(':');
            int partition = Integer.parseInt(command[index].substring(colon + 1));
            places.add(new TopicPartition(command[index].substring(0, colon), partition));
        }
        consumer.assign(places);
        places.forEach(place -> consumer.seek(place, 0));
    }

    private void makeMember(String[] command) {
        leave();
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", command[1]);
        settings.put("group.id", command[2]);
        settings.put("session.timeout.ms", Integer.valueOf(command[4]));
        settings.put("heartbeat.interval.ms", Integer.parseInt(command[4]) / 3);
        settings.put("max.poll.interval.ms", 15000); // its threads go on where the worker is suspended
        settings.put("max.poll.records", Integer.valueOf(command[5]));
        settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        settings.put("reconnect.backoff.ms", 10);
        settings.put("reconnect.backoff.max.ms", 100);
        group = command[2];
        assigned = null;
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(command[3]), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> places) {
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> places) {
                assigned = places;
            }
        });
    }

    private void leave() {
        if (consumer != null) {
            consumer.close(ZERO);
            consumer = null;
        }
    }

    private String assigned() {
        if (assigned == null) {
            return "\t-";
        }
        StringBuilder found = new StringBuilder();
        assigned.forEach(place -> found.append('\t').append(place.topic()).append(':').append(place.partition()));
        assigned = null;
        return found.toString();
    }

    private static Map<TopicPartition, Long> positions(String[] command, int first) {
        Map<TopicPartition, Long> found = new HashMap<>();
        for (int index = first; index < command.length; index++) {
            String[] parts = command[index].split(":");
            TopicPartition place = new TopicPartition(parts[0], Integer.parseInt(parts[1]));
            found.put(place, Long.valueOf(parts[2]));
        }
        return found;
    }

    private String poll(long milliseconds) {
        StringBuilder found = new StringBuilder();
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(milliseconds))) {
            String value = new String(record.value(), StandardCharsets.UTF_8);
            found.append('\t').append(record.topic()).append(':').append(record.partition());
            found.append(':').append(record.offset()).append(':').append(value);
        }
        return found.toString();
    }
}

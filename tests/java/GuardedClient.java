import java.io.FileInputStream;
import java.io.InputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's Java client in the job of tests/clients/test_least_rights.py.
 *
 * <p>Arguments: a file with the client's settings, the name of the job (its group and transactional id), the topics of
 * orders and of invoices, and a name of a topic, a group and a transactional id that are refused. A line is printed for
 * each thing that was done. Whatever goes wrong ends the program with an exception.
 */
public final class GuardedClient {
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final int RECORDS = 10;

    private final Map<String, Object> settings = new HashMap<>();
    private final String name;
    private final String orders;
    private final String invoices;
    private final String forbidden;

    private GuardedClient(String[] arguments) throws Exception {
        Properties read = new Properties();
        try (InputStream source = new FileInputStream(arguments[0])) {
            read.load(source);
        }
        read.forEach((key, value) -> settings.put((String) key, value));
        name = arguments[1];
        orders = arguments[2];
        invoices = arguments[3];
        forbidden = arguments[4];
    }

    public static void main(String[] arguments) throws Exception {
        GuardedClient client = new GuardedClient(arguments);
        client.writeOrders();
        client.writeInvoices();
        client.readInvoices();
        client.tryWhatIsForbidden();
    }

    private KafkaProducer<String, String> producer(String transactionalId) {
        Map<String, Object> all = new HashMap<>(settings);
        if (transactionalId != null) {
            all.put("transactional.id", transactionalId);
        }
        all.put("delivery.timeout.ms", 30000);
        all.put("request.timeout.ms", 20000);
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(String group, String topic) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("group.id", group);
        all.put("isolation.level", "read_committed");
        all.put("auto.offset.reset", "earliest");
        all.put("enable.auto.commit", "false");
        KafkaConsumer<String, String> made =
                new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
        made.subscribe(List.of(topic));
        return made;
    }

    private static List<ConsumerRecord<String, String>> read(KafkaConsumer<String, String> consumer) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long ends = System.nanoTime() + PATIENCE.toNanos();
        while (found.size() < RECORDS) {
            require(System.nanoTime() < ends, "only " + found.size() + " records came");
            consumer.poll(Duration.ofMillis(200)).forEach(found::add);
        }
        require(found.size() == RECORDS, "too many records: " + found.size());
        return found;
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }

    private void writeOrders() throws Exception {
        try (KafkaProducer<String, String> producer = producer(null)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < RECORDS; number++) {
                sent.add(producer.send(new ProducerRecord<>(orders, String.valueOf(number))));
            }
            for (int number = 0; number < RECORDS; number++) {
                require(sent.get(number).get().offset() == number, "another offset");
            }
        }
        System.out.println("produced");
    }

    private void writeInvoices() throws Exception {
        TopicPartition partition = new TopicPartition(orders, 0);
        try (KafkaConsumer<String, String> consumer = consumer(name, orders);
                KafkaProducer<String, String> producer = producer(name)) {
            List<ConsumerRecord<String, String>> found = read(consumer);
            System.out.println("consumed in a group");
            producer.initTransactions();
            producer.beginTransaction();
            for (ConsumerRecord<String, String> order : found) {
                producer.send(new ProducerRecord<>(invoices, "invoice " + order.value()));
            }
            Map<TopicPartition, OffsetAndMetadata> position =
                    Map.of(partition, new OffsetAndMetadata(consumer.position(partition)));
            producer.sendOffsetsToTransaction(position, consumer.groupMetadata());
            producer.commitTransaction();
            System.out.println("committed");
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(invoices, "never")).get();
            producer.abortTransaction();
            System.out.println("aborted");
            OffsetAndMetadata committed = consumer.committed(Set.of(partition), PATIENCE).get(partition);
            require(committed != null && committed.offset() == RECORDS, "committed: " + committed);
        }
    }

    private void readInvoices() {
        try (KafkaConsumer<String, String> consumer = consumer(name, invoices)) {
            List<ConsumerRecord<String, String>> found = read(consumer);
            for (int number = 0; number < RECORDS; number++) {
                require(found.get(number).value().equals("invoice " + number), found.get(number).value());
            }
        }
        System.out.println("read what was committed");
    }

    private void tryWhatIsForbidden() throws Exception {
        try (KafkaProducer<String, String> producer = producer(null)) {
            producer.send(new ProducerRecord<>(forbidden, "never")).get();
            throw new IllegalStateException("the forbidden topic was written");
        } catch (ExecutionException refused) {
            require(refused.getCause() instanceof TopicAuthorizationException, refused.toString());
        }
        try (KafkaConsumer<String, String> consumer = consumer(forbidden, orders)) {
            read(consumer);
            throw new IllegalStateException("the forbidden group was joined");
        } catch (GroupAuthorizationException refused) {
            require(refused.groupId().equals(forbidden), refused.toString());
        }
        try (KafkaProducer<String, String> producer = producer(forbidden)) {
            producer.initTransactions();
            throw new IllegalStateException("the forbidden transactional id was taken");
        } catch (TransactionalIdAuthorizationException refused) {
            System.out.println("refused what is forbidden");
        }
    }
}

import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A consumer of a group that polls in a thread of its own; what it owns and has read. */
final class Member implements ConsumerRebalanceListener {
    final Set<Integer> owned = new HashSet<>();
    final Set<String> values = new HashSet<>();
    int taken;
    private volatile boolean leaving;
    private final Thread thread;

    Member(Map<String, Object> settings, String topic) {
        thread = new Thread(() -> poll(settings, topic));
        thread.start();
    }

    private void poll(Map<String, Object> settings, String topic) {
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic), this);
            while (!leaving) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(20))) {
                    synchronized (this) {
                        values.add(new String(record.value()));
                    }
                }
            }
        }
    }

    @Override
    public synchronized void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        partitions.forEach(one -> owned.add(one.partition()));
    }

    @Override
    public synchronized void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        taken += partitions.size();
        partitions.forEach(one -> owned.remove(one.partition()));
    }

    void leave() throws InterruptedException {
        leaving = true;
        thread.join(Stories.PATIENCE_MS);
    }
}

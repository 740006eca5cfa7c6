import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The work of tests/clients/copying.py with Apache Kafka's Java client: a member of a group copies a topic in
 * transactions that commit its offsets, too (sendOffsetsToTransaction, with the epoch of the member). Runs until its
 * standard input ends; whatever goes wrong ends it, and it is started again.
 *
 * <pre>GroupCopier bootstrap group transactionalId source sink protocol [instance]</pre>
 */
public final class GroupCopier {
  public static void main(String[] told) throws Exception {
    Properties reading = new Properties();
    reading.put("bootstrap.servers", told[0]);
    reading.put("group.id", told[1]);
    reading.put("group.protocol", told[5]);
    if (told[5].equals("classic")) {
      reading.put("partition.assignment.strategy",
          "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
      reading.put("session.timeout.ms", "3000");
      reading.put("heartbeat.interval.ms", "200");
    }
    if (told.length > 6) {
      reading.put("group.instance.id", told[6]);
    }
    reading.put("enable.auto.commit", "false");
    reading.put("auto.offset.reset", "earliest");
    reading.put("isolation.level", "read_committed");
    reading.put("max.poll.records", "10");
    Properties writing = new Properties();
    writing.put("bootstrap.servers", told[0]);
    writing.put("transactional.id", told[2]);
    writing.put("transaction.timeout.ms", "5000");
    StringDeserializer text = new StringDeserializer();
    try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading, text, text);
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
      producer.initTransactions();
      consumer.subscribe(List.of(told[3]));
      while (System.in.available() == 0) {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
        if (records.isEmpty()) {
          continue;
        }
        producer.beginTransaction();
        try {
          copy(consumer, producer, records, told[4]);
        } catch (CommitFailedException failed) {
          // No member any more, or one of another epoch: what was read is read again by who has the partition now.
          producer.abortTransaction();
          throw failed;
        }
      }
    }
  }

  private static void copy(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer,
      ConsumerRecords<String, String> records, String sink) {
    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
    for (ConsumerRecord<String, String> record : records) {
      producer.send(new ProducerRecord<>(sink, record.key(), record.value()));
      offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
    }
    producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
    producer.commitTransaction();
  }
}

import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * A Kafka Streams application with exactly_once_v2: counts values through a repartition topic and a store with a
 * changelog, and writes every count that a value ever had. Runs until its standard input ends.
 *
 * <pre>StreamsCounts bootstrap application source sink stateFolder [protocol]</pre>
 */
public final class StreamsCounts {
  public static void main(String[] told) throws Exception {
    Properties settings = new Properties();
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, told[0]);
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, told[1]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, told[4]);
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 50);
    settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
    settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    if (told.length > 5) {
      settings.put("group.protocol", told[5]); // Then timeouts are the broker's.
    } else {
      settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
      settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
    }
    settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
    settings.put(StreamsConfig.consumerPrefix("max.poll.records"), 100);
    settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 10000);

    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(told[2], Consumed.with(Serdes.String(), Serdes.String()))
        .groupBy((key, value) -> value, Grouped.with(Serdes.String(), Serdes.String()))
        .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
        .toStream()
        .mapValues(count -> Long.toString(count))
        .to(told[3], Produced.with(Serdes.String(), Serdes.String()));

    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    streams.setUncaughtExceptionHandler(error -> {
      System.out.println("replaced " + error);
      return StreamThreadExceptionResponse.REPLACE_THREAD;
    });
    streams.setStateListener((now, before) -> System.out.println("state " + now));
    streams.start();
    while (System.in.read() >= 0) {
      // Until nobody holds the other end.
    }
    streams.close(Duration.ofSeconds(60));
    System.out.println("closed");
  }
}
